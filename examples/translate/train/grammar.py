"""A small French-English grammar: adjective-noun reordering, questions, negation, plural agreement.

A sentence pair is two lists of words and, for each English word, the index of the French word it renders.
Noun subjects take the simple present ("the cat sleeps"), pronouns the progressive ("we are eating").
"""
import random

# French singular, plural, gender, English singular, plural
NOUNS = [
    ("chat", "chats", "m", "cat", "cats"), ("chien", "chiens", "m", "dog", "dogs"),
    ("cheval", "chevaux", "m", "horse", "horses"), ("mouton", "moutons", "m", "sheep", "sheep"),
    ("lapin", "lapins", "m", "rabbit", "rabbits"), ("renard", "renards", "m", "fox", "foxes"),
    ("vache", "vaches", "f", "cow", "cows"), ("poule", "poules", "f", "hen", "hens"),
    ("souris", "souris", "f", "mouse", "mice"), ("tortue", "tortues", "f", "turtle", "turtles"),
    ("fille", "filles", "f", "girl", "girls"), ("femme", "femmes", "f", "woman", "women"),
    ("garçon", "garçons", "m", "boy", "boys"), ("voisin", "voisins", "m", "neighbour", "neighbours"),
    ("voisine", "voisines", "f", "neighbour", "neighbours"), ("professeur", "professeurs", "m", "teacher", "teachers"),
    ("fermier", "fermiers", "m", "farmer", "farmers"), ("reine", "reines", "f", "queen", "queens"),
    ("roi", "rois", "m", "king", "kings"), ("danseuse", "danseuses", "f", "dancer", "dancers"),
    ("bébé", "bébés", "m", "baby", "babies"), ("soldat", "soldats", "m", "soldier", "soldiers"),
]
THINGS = [
    ("livre", "livres", "m", "book", "books"), ("lettre", "lettres", "f", "letter", "letters"),
    ("pomme", "pommes", "f", "apple", "apples"), ("poire", "poires", "f", "pear", "pears"),
    ("voiture", "voitures", "f", "car", "cars"), ("maison", "maisons", "f", "house", "houses"),
    ("bateau", "bateaux", "m", "boat", "boats"), ("chapeau", "chapeaux", "m", "hat", "hats"),
    ("robe", "robes", "f", "dress", "dresses"), ("fleur", "fleurs", "f", "flower", "flowers"),
    ("clé", "clés", "f", "key", "keys"), ("tasse", "tasses", "f", "cup", "cups"),
    ("gâteau", "gâteaux", "m", "cake", "cakes"), ("valise", "valises", "f", "suitcase", "suitcases"),
    ("journal", "journaux", "m", "newspaper", "newspapers"), ("montre", "montres", "f", "watch", "watches"),
]
MASS = [("pain", "m", "bread"), ("fromage", "m", "cheese"), ("lait", "m", "milk"), ("thé", "m", "tea"),
        ("café", "m", "coffee"), ("viande", "f", "meat"), ("soupe", "f", "soup"), ("confiture", "f", "jam"),
        ("salade", "f", "salad"), ("poisson", "m", "fish"), ("riz", "m", "rice"), ("beurre", "m", "butter")]
PLACES = [("jardin", "m", "garden"), ("cuisine", "f", "kitchen"), ("forêt", "f", "forest"), ("rue", "f", "street"),
          ("parc", "m", "park"), ("chambre", "f", "bedroom"), ("ville", "f", "town"), ("salon", "m", "living-room")]
# masculine, feminine, masculine plural, feminine plural, English
AFTER = [("noir", "noire", "noirs", "noires", "black"), ("blanc", "blanche", "blancs", "blanches", "white"),
         ("rouge", "rouge", "rouges", "rouges", "red"), ("vert", "verte", "verts", "vertes", "green"),
         ("bleu", "bleue", "bleus", "bleues", "blue"), ("jaune", "jaune", "jaunes", "jaunes", "yellow"),
         ("gris", "grise", "gris", "grises", "grey"), ("lourd", "lourde", "lourds", "lourdes", "heavy"),
         ("rapide", "rapide", "rapides", "rapides", "fast"), ("fatigué", "fatiguée", "fatigués", "fatiguées", "tired"),
         ("content", "contente", "contents", "contentes", "happy"), ("triste", "triste", "tristes", "tristes", "sad"),
         ("curieux", "curieuse", "curieux", "curieuses", "curious"), ("riche", "riche", "riches", "riches", "rich")]
BEFORE = [("petit", "petite", "petits", "petites", "small"), ("grand", "grande", "grands", "grandes", "big"),
          ("joli", "jolie", "jolis", "jolies", "pretty"), ("bon", "bonne", "bons", "bonnes", "good"),
          ("jeune", "jeune", "jeunes", "jeunes", "young")]
# French je, tu, il, nous, vous, ils; English base, third person, -ing
INTRANSITIVE = [("dors dors dort dormons dormez dorment", "sleep", "sleeps", "sleeping"),
                ("cours cours court courons courez courent", "run", "runs", "running"),
                ("danse danses danse dansons dansez dansent", "dance", "dances", "dancing"),
                ("chante chantes chante chantons chantez chantent", "sing", "sings", "singing"),
                ("marche marches marche marchons marchez marchent", "walk", "walks", "walking"),
                ("travaille travailles travaille travaillons travaillez travaillent", "work", "works", "working"),
                ("tombe tombes tombe tombons tombez tombent", "fall", "falls", "falling"),
                ("pleure pleures pleure pleurons pleurez pleurent", "cry", "cries", "crying"),
                ("ris ris rit rions riez rient", "laugh", "laughs", "laughing"),
                ("nage nages nage nageons nagez nagent", "swim", "swims", "swimming")]
TRANSITIVE = [("vois vois voit voyons voyez voient", "see", "sees", "seeing"),
              ("cherche cherches cherche cherchons cherchez cherchent", "look-for", "looks-for", "looking-for"),
              ("trouve trouves trouve trouvons trouvez trouvent", "find", "finds", "finding"),
              ("regarde regardes regarde regardons regardez regardent", "watch", "watches", "watching"),
              ("porte portes porte portons portez portent", "carry", "carries", "carrying"),
              ("vends vends vend vendons vendez vendent", "sell", "sells", "selling"),
              ("prends prends prend prenons prenez prennent", "take", "takes", "taking"),
              ("dessine dessines dessine dessinons dessinez dessinent", "draw", "draws", "drawing"),
              ("montre montres montre montrons montrez montrent", "show", "shows", "showing"),
              ("lave laves lave lavons lavez lavent", "wash", "washes", "washing")]
EATING = [("mange manges mange mangeons mangez mangent", "eat", "eats", "eating"),
          ("prépare prépares prépare préparons préparez préparent", "prepare", "prepares", "preparing"),
          ("commande commandes commande commandons commandez commandent", "order", "orders", "ordering"),
          ("goûte goûtes goûte goûtons goûtez goûtent", "taste", "tastes", "tasting")]
PRONOUNS = [("je", 0, "i", "am"), ("tu", 1, "you", "are"), ("il", 2, "he", "is"), ("elle", 2, "she", "is"),
            ("nous", 3, "we", "are"), ("vous", 4, "you", "are"), ("ils", 5, "they", "are"), ("elles", 5, "they", "are")]
ADVERBS = [("ici", "here"), ("maintenant", "now"), ("bien", "well"), ("beaucoup", "a-lot"), ("demain", "tomorrow")]
DETERMINERS = {"the": ("le", "la", "les", "the", "the"), "a": ("un", "une", "des", "a", ""),
               "my": ("mon", "ma", "mes", "my", "my"), "this": ("ce", "cette", "ces", "this", "these"),
               "our": ("notre", "notre", "nos", "our", "our")}


class Sentence:
    """French words, English words and the alignment, grown from left to right."""

    def __init__(self):
        self.french, self.english, self.aligned = [], [], []

    def fr(self, word):
        self.french.append(word)
        return len(self.french) - 1

    def en(self, word, at):
        if word:
            self.english.append(word)
            self.aligned.append(at)


def noun_phrase(s, rng, nouns):
    """Appends the French phrase; gives (plural, list of (English word, French index))."""
    noun = rng.choice(nouns)
    plural = rng.random() < 0.35
    feminine = noun[2] == "f"
    form = (2 if plural else 0) + (1 if feminine else 0)
    det = DETERMINERS[rng.choice(list(DETERMINERS))]
    words = []
    before = rng.choice(BEFORE) if rng.random() < 0.25 else None
    plural_det = "de" if det[2] == "des" and before else det[2]
    at = s.fr(plural_det if plural else det[1] if feminine else det[0])
    article = (det[4] if plural else det[3], at)
    if before:
        words.append((before[4], s.fr(before[form])))
    noun_at = s.fr(noun[1] if plural else noun[0])
    after = rng.choice(AFTER) if rng.random() < 0.45 else None
    if after:
        words.append((after[4], s.fr(after[form])))
    words.append((noun[4] if plural else noun[3], noun_at))
    if article[0] == "a" and words[0][0][0] in "aeiou":
        article = ("an", at)
    return plural, ([article] if article[0] else []) + words


def place(s, rng):
    noun = rng.choice(PLACES)
    at = s.fr("dans")
    det = s.fr("la" if noun[1] == "f" else "le")
    return [("in", at), ("the", det), (noun[2], s.fr(noun[0]))]


def sentence(rng):
    s = Sentence()
    question = rng.random() < 0.25
    negative = rng.random() < 0.25
    start = [s.fr("est-ce"), s.fr("que")] if question else None
    pronoun = rng.choice(PRONOUNS) if rng.random() < 0.4 else None
    if pronoun:
        subject = [(pronoun[2], s.fr(pronoun[0]))]
        person, plural = pronoun[1], False
    else:
        plural, subject = noun_phrase(s, rng, NOUNS)
        person = 5 if plural else 2
    kind = rng.choice(["intransitive", "transitive", "mass"])
    verb = rng.choice({"intransitive": INTRANSITIVE, "transitive": TRANSITIVE, "mass": EATING}[kind])
    ne = s.fr("ne") if negative else None
    verb_at = s.fr(verb[0].split()[person])
    pas = s.fr("pas") if negative else None
    objects, rest = [], []
    if kind == "transitive":
        objects = noun_phrase(s, rng, THINGS + NOUNS)[1]
    elif kind == "mass":
        noun = rng.choice(MASS)
        if negative:
            s.fr("de")
        elif noun[1] == "m":
            s.fr("du")
        else:
            s.fr("de"), s.fr("la")
        objects = [(noun[2], s.fr(noun[0]))]
    if rng.random() < 0.25:
        rest = place(s, rng)
    elif rng.random() < 0.2:
        adverb = rng.choice(ADVERBS)
        rest = [(adverb[1], s.fr(adverb[0]))]
    end = s.fr("?") if question else None
    if question and s.french[2][0] in "aeiou":
        s.french[1] = "qu'"

    subject_en = subject
    negation = [("not", pas)] if negative else []
    if pronoun:
        be = [(pronoun[3], verb_at)]
        body = (be + subject_en + negation if question else subject_en + be + negation) + [(verb[3], verb_at)]
    elif question or negative:
        do = [("do" if plural else "does", start[0] if question else ne)]
        body = (do + subject_en + negation if question else subject_en + do + negation) + [(verb[1], verb_at)]
    else:
        body = subject_en + [(verb[1] if plural else verb[2], verb_at)]
    for word, at in body + objects + rest + ([("?", end)] if question else []):
        s.en(word, at)
    return s


# Kept out of the training set, with every sentence in which a black cat appears.
DEMO = ["le chat noir dort", "nous mangeons du pain"]


def held_back(french):
    text = " ".join(french)
    pair = any(a in ("chat", "chats") and b in ("noir", "noirs") for a, b in zip(french, french[1:]))
    return pair or text in DEMO


def corpus(train=60000, heldout=400, seed=7):
    """(training sentences, held-out sentences): distinct, and disjoint."""
    rng = random.Random(seed)
    seen, sentences = set(), []
    while len(sentences) < train + heldout:
        s = sentence(rng)
        key = " ".join(s.french)
        if key in seen or held_back(s.french):
            continue
        seen.add(key)
        sentences.append(s)
    return sentences[heldout:], sentences[:heldout]


def vocabulary():
    """<pad>, <s>, </s>, <unk> (ids 0 to 3), then the words of both languages, sorted."""
    french, english = {"ne", "pas", "est-ce", "que", "qu'", "?", "du", "de", "la", "dans", "des"}, {"not", "do", "does", "?", "in", "the", "a", "an"}
    for group in (NOUNS, THINGS):
        for n in group:
            french |= {n[0], n[1]}
            english |= {n[3], n[4]}
    for n in MASS + PLACES:
        french.add(n[0])
        english.add(n[2])
    for a in AFTER + BEFORE:
        french |= set(a[:4])
        english.add(a[4])
    for v in INTRANSITIVE + TRANSITIVE + EATING:
        french |= set(v[0].split())
        english |= set(v[1:])
    for p in PRONOUNS:
        french.add(p[0])
        english |= {p[2], p[3]}
    for a in ADVERBS:
        french.add(a[0])
        english.add(a[1])
    for d in DETERMINERS.values():
        french |= set(d[:3])
        english |= {w for w in d[3:] if w}
    return ["<pad>", "<s>", "</s>", "<unk>"] + sorted(french | english)


def text(words):
    """Words as a person writes them: "qu'" joins the word that follows."""
    return " ".join(words).replace("' ", "'")
