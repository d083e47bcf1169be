"""Writes the tokenizer fixtures: lines.txt, and for each kind NAME.json with what the original library gives, NAME.expected.

usage: python make.py      (needs the packages tokenizers and sentencepiece; run once, the results are committed)
A line of NAME.expected: the ids, a tab, the decoded text with line breaks escaped.
"""
import pathlib
import random

import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = [
    "The quick brown fox doesn't jump over 13 lazy dogs; it's (really) tired, isn't it? Straße café naïve coöperate Ærø łódź",
    "Où est-ce que l’élève a trouvé ça ? « Ici », dit-elle… à 10h30 œuvre",
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από το σκύλο Ὦ ἄνδρες",
    "Съешь ещё этих мягких французских булок, да выпей чаю Їжак",
    "السلام عليكم يا صديقي كيف حالك اليوم؟ مُحَمَّد",
    "שלום עולם מה שלומך היום שָׁלוֹם",
    "नमस्ते दुनिया आप कैसे हैं हिन्दी में",
    "สวัสดีชาวโลก วันนี้อากาศดีมาก ครับ",
    "敏捷的棕色狐狸 跳过了懒狗。 你好， 世界！ ２０２６年",
    "こんにちは世界、 カタカナとﾊﾝｶｸ文字、 漢字のテスト。",
    "안녕하세요 세계 오늘 날씨가 좋네요 각",
    "hello 👋🏽 world 👩‍👩‍👧‍👦 🇫🇷 ½ ﬁne ™ ① \u00a0 nbsp \u200b zw <mask> </s>x",
]


def lines():
    rng = random.Random(1)
    out = []
    for text in SCRIPTS:
        words = text.split(" ")
        for i in range(84):
            line = " ".join(rng.sample(words, rng.randint(1, len(words))))
            if i % 7 == 0:
                line = "  " + line + "  "
            if i % 11 == 0:
                line = line.replace(" ", "   ", 2)
            if i % 13 == 0:
                line = line.upper()
            out.append(line)
    return out


def build(model, trainer, corpus, normalizer=None, pre_tokenizer=None, decoder=None, post_processor=None):
    t = Tokenizer(model)
    if normalizer:
        t.normalizer = normalizer
    if pre_tokenizer:
        t.pre_tokenizer = pre_tokenizer
    t.train_from_iterator(corpus, trainer)
    if decoder:
        t.decoder = decoder
    if post_processor:
        t.post_processor = post_processor
    return t


def kinds(corpus):
    special = ["<s>", "</s>", "<unk>", "<pad>", "<mask>"]
    yield "bpe_byte_level", build(
        models.BPE(), trainers.BpeTrainer(vocab_size=900, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()), corpus,
        None, pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel(), processors.RobertaProcessing(("</s>", 1), ("<s>", 0)))
    yield "wordpiece_bert", build(
        models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(vocab_size=900, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"]), corpus,
        normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(),
        processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)))
    yield "unigram_t5", build(
        models.Unigram(), trainers.UnigramTrainer(vocab_size=900, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>"), corpus,
        normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]), pre_tokenizers.Metaspace(),
        decoders.Metaspace(), processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)]))
    yield "bpe_words", build(
        models.BPE(unk_token="<unk>", fuse_unk=True), trainers.BpeTrainer(vocab_size=900, special_tokens=special, limit_alphabet=200), corpus,
        normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()]),
        pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]))
    yield "bpe_suffix", build(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        trainers.BpeTrainer(vocab_size=900, special_tokens=special, limit_alphabet=300, end_of_word_suffix="</w>"), corpus, normalizers.NFC(),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]), decoders.BPEDecoder())
    yield "bpe_byte_fallback", build(
        models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True),
        trainers.BpeTrainer(vocab_size=900, special_tokens=special + [f"<0x{b:02X}>" for b in range(256)], limit_alphabet=150), corpus,
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None,
        decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]))
    yield "word_level", build(
        models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(vocab_size=300, special_tokens=special), corpus, normalizers.Lowercase(),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split("'", "merged_with_previous")]))


def write(name, rows):
    with open(HERE / f"{name}.expected", "w", encoding="utf8") as f:
        for ids, text in rows:
            f.write(" ".join(map(str, ids)) + "\t" + text.replace("\\", "\\\\").replace("\n", "\\n") + "\n")


def main():
    corpus = lines()
    (HERE / "lines.txt").write_text("\n".join(corpus) + "\n", encoding="utf8")
    for name, t in kinds(corpus):
        t.save(str(HERE / f"{name}.json"), pretty=False)
        write(name, ((ids := t.encode(line).ids, t.decode(ids)) for line in corpus))
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus), model_prefix=str(HERE / "sentencepiece"), vocab_size=440,
                                             character_coverage=0.995, minloglevel=2)
    (HERE / "sentencepiece.vocab").unlink()
    (HERE / "sentencepiece.model").rename(HERE / "sentencepiece.spm")
    sp = sentencepiece.SentencePieceProcessor(model_file=str(HERE / "sentencepiece.spm"))
    write("sentencepiece", ((ids := sp.encode(line), sp.decode(ids)) for line in corpus))


if __name__ == "__main__":
    main()
