// Packed weights in a file beside a model, so that a later process maps them instead of packing them anew.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/io/file_bytes.h"
#include "ops/support/panel_store.h"

namespace attune {

// Plans ask for their weights in an order that their files and options alone decide; the file keeps them in that order.
// It is good for one build of attune, one kind of CPU, and the state of the model files (size, time of change): with
// any other it counts as empty, and save() replaces it; what its bytes no longer are is packed anew. One thread makes
// plans with it at a time.
class PanelCache : public PanelStore {
 public:
  // `model_files`: all files that weights come from. `options`: whatever else decides which weights are asked for.
  PanelCache(std::filesystem::path file, const std::vector<std::filesystem::path>& model_files,
             const std::string& options);

  std::shared_ptr<const PanelWeights> panels(const PanelSource& source, const PackPanels& pack) override;

  // Writes the file, if it lacks weights that were asked for. Throws Error(kIo).
  void save() const;

 private:
  struct Entry {
    uint64_t source = 0;  // fingerprint of what it was packed from
    uint64_t hash = 0;    // of its bytes, as the file says; only of what the file has
    std::shared_ptr<const PanelWeights> panels;
  };

  void read();
  // The bytes of what the file has are those that were written.
  bool intact(const Entry& entry);

  std::filesystem::path file_;
  std::string key_;
  std::vector<Entry> kept_;   // what the file has
  std::vector<Entry> asked_;  // what was asked for
  bool complete_ = true;      // all of it came from the file
  std::unordered_map<const PanelWeights*, bool> intact_;
};

inline constexpr std::string_view kPanelCacheExtension = ".panels";

// The file beside the model at `folder` for this CPU.
std::filesystem::path panel_cache_file(const std::filesystem::path& folder);

}  // namespace attune
