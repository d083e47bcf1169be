#include "runtime/panel_cache.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "graph/io/output_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace attune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "attune panels 2\n";
constexpr size_t kAlignment = 4096;

struct Head {
  char magic[16];
  uint64_t key_bytes, entries;
  uint64_t hash;  // of the key and the records
  uint64_t size;  // of the file
};

struct Record {
  uint64_t source;
  PanelWeights::Header header;
  uint64_t hash;                                       // of the bytes at both positions
  uint64_t memory, memory_bytes, scales, scale_bytes;  // positions in the file
};

// Size and time of change of a file.
std::string state_of(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return fmt::format("{} missing", file.filename().string());
  return fmt::format("{} {} {}.{:09} {}", file.filename().string(), status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec, status.st_ino);
}

// The file of the program or library that this code is in.
fs::path own_binary() {
  Dl_info info{};
  static const char here = 0;
  if (::dladdr(&here, &info) == 0 || !info.dli_fname) return "/proc/self/exe";
  std::error_code error;
  return fs::exists(info.dli_fname, error) ? fs::path(info.dli_fname) : fs::path("/proc/self/exe");
}

// Tells sources of one model apart that are asked for in another order: sizes, and some of the values.
uint64_t fingerprint(const PanelSource& source) {
  constexpr size_t kSample = 64;
  const uint64_t form = (source.transposed ? 1U : 0U) + (source.rounded_activations ? 2U : 0U);
  uint64_t h = XXH3_64bits_withSeed(&source.group, sizeof source.group, form);
  for (const Tensor& t : source.tensors) {
    for (const int64_t n : t.shape()) h = XXH3_64bits_withSeed(&n, sizeof n, h);
    const size_t sample = std::min(kSample, t.bytes());
    for (const size_t at : {size_t{0}, (t.bytes() - sample) / 2, t.bytes() - sample})
      h = XXH3_64bits_withSeed(t.raw() + at, sample, h + static_cast<uint64_t>(t.type()));
  }
  return h;
}

uint64_t table_hash(std::string_view key, const std::vector<Record>& records) {
  return XXH3_64bits_withSeed(records.data(), records.size() * sizeof(Record), XXH3_64bits(key.data(), key.size()));
}

uint64_t data_hash(const PanelWeights& p) {
  const uint64_t memory = XXH3_64bits(p.memory().data(), p.memory().size());
  return XXH3_64bits_withSeed(p.scales().data(), p.scales().size(), memory);
}

std::string_view bytes_of(std::span<const std::byte> span) {
  return {reinterpret_cast<const char*>(span.data()), span.size()};
}

}  // namespace

PanelCache::PanelCache(fs::path file, const std::vector<fs::path>& model_files, const std::string& options)
    : file_(std::move(file)) {
  key_ = fmt::format("{}\n{}\n{}\n", PanelWeights::instruction_set(), state_of(own_binary()), options);
  for (const fs::path& f : model_files) key_ += state_of(f) + "\n";
  read();
}

// A file that isn't what was written for this key leaves kept_ empty.
void PanelCache::read() {
  std::error_code error;
  if (!fs::is_regular_file(file_, error)) return;
  const FileBytes file = FileBytes::open(file_);
  Head head{};
  if (file.bytes.size() < sizeof head) return;
  std::memcpy(&head, file.bytes.data(), sizeof head);
  if (std::string_view(head.magic, sizeof head.magic) != kMagic || head.size != file.bytes.size()) return;
  const size_t rest = file.bytes.size() - sizeof head;
  if (head.key_bytes > rest || head.entries > (rest - head.key_bytes) / sizeof(Record)) return;
  const std::string_view key = file.bytes.substr(sizeof head, head.key_bytes);
  std::vector<Record> records(head.entries);
  std::memcpy(records.data(), file.bytes.data() + sizeof head + head.key_bytes, records.size() * sizeof(Record));
  if (key != key_ || head.hash != table_hash(key, records)) return;

  const auto view = [&](uint64_t at, uint64_t bytes) {
    if (bytes == 0) return BufferRef();
    if (at > file.bytes.size() || bytes > file.bytes.size() - at || at % 64 != 0) return BufferRef();
    return BufferRef::view(file.bytes.data() + at, bytes, file.owner);
  };
  std::map<uint64_t, std::shared_ptr<const PanelWeights>> by_position;
  try {
    for (const Record& r : records) {
      auto& panels = by_position[r.memory];
      if (!panels)
        panels = std::make_shared<const PanelWeights>(
            PanelWeights::from_parts(r.header, view(r.memory, r.memory_bytes), view(r.scales, r.scale_bytes)));
      kept_.push_back({r.source, r.hash, panels});
    }
  } catch (const Error&) {
    kept_.clear();
  }
}

bool PanelCache::intact(const Entry& entry) {
  const auto [it, fresh] = intact_.try_emplace(entry.panels.get(), false);
  if (fresh) it->second = data_hash(*entry.panels) == entry.hash;
  return it->second;
}

std::shared_ptr<const PanelWeights> PanelCache::panels(const PanelSource& source, const PackPanels& pack) {
  const uint64_t print = fingerprint(source);
  const size_t i = asked_.size();
  const bool found = i < kept_.size() && kept_[i].source == print && intact(kept_[i]);
  complete_ = complete_ && found;
  asked_.push_back({print, 0, found ? kept_[i].panels : share_panels(source, pack)});
  return asked_.back().panels;
}

void PanelCache::save() const {
  if (complete_ && asked_.size() == kept_.size()) return;
  std::vector<Record> records;
  std::map<const PanelWeights*, Record> placed;
  uint64_t end = sizeof(Head) + key_.size() + asked_.size() * sizeof(Record);
  const auto place = [&](size_t bytes) {
    const uint64_t at = (end + kAlignment - 1) / kAlignment * kAlignment;
    end = at + bytes;
    return at;
  };
  std::vector<const PanelWeights*> order;
  for (const Entry& e : asked_) {
    const PanelWeights* p = e.panels.get();
    auto [it, fresh] = placed.try_emplace(p);
    if (fresh) {
      order.push_back(p);
      Record& r = it->second;
      r.header = p->header();
      r.hash = data_hash(*p);
      r.memory_bytes = p->memory().size();
      r.memory = place(r.memory_bytes);
      r.scale_bytes = p->scales().size();
      r.scales = place(r.scale_bytes);
    }
    records.push_back(it->second);
    records.back().source = e.source;
  }
  Head head{{}, key_.size(), records.size(), table_hash(key_, records), end};
  std::copy(kMagic.begin(), kMagic.end(), head.magic);

  OutputFile out(file_);
  out.write({reinterpret_cast<const char*>(&head), sizeof head});
  out.write(key_);
  out.write({reinterpret_cast<const char*>(records.data()), records.size() * sizeof(Record)});
  for (const PanelWeights* p : order) {
    const Record& r = placed.at(p);
    out.pad_to(r.memory);
    out.write(bytes_of(p->memory()));
    out.pad_to(r.scales);
    out.write(bytes_of(p->scales()));
  }
  out.commit();
}

fs::path panel_cache_file(const fs::path& folder) {
  std::string cpu = PanelWeights::instruction_set();
  std::transform(cpu.begin(), cpu.end(), cpu.begin(), [](unsigned char c) { return std::tolower(c); });
  return folder / fmt::format("attune-{}{}", cpu, kPanelCacheExtension);
}

}  // namespace attune
