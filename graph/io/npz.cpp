#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "graph/io/file_bytes.h"
#include "graph/io/npy.h"
#include "graph/io/output_file.h"

namespace attune {
namespace {

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidArgument, std::move(message)); }

struct ErrorText {
  zip_error_t error;
  ErrorText() { zip_error_init(&error); }
  ErrorText(const ErrorText&) = delete;
  ErrorText& operator=(const ErrorText&) = delete;
  ~ErrorText() { zip_error_fini(&error); }
  std::string text() { return zip_error_strerror(&error); }
};

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
using Archive = std::unique_ptr<zip_t, Discard>;
using Entry = std::unique_ptr<zip_file_t, Discard>;
using Source = std::unique_ptr<zip_source_t, Discard>;

Archive open_archive(std::string_view bytes) {
  if (bytes.empty()) invalid("it isn't a .npz file: it is empty");
  ErrorText error;
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error.error);
  if (!source) invalid(error.text());
  Archive archive(zip_open_from_source(source, ZIP_RDONLY, &error.error));
  if (!archive) {
    zip_source_free(source);
    invalid(fmt::format("it isn't a .npz file: {}", error.text()));
  }
  return archive;
}

// The size that the archive claims is an upper bound only: memory grows with what is really there.
std::string read_entry(zip_t* archive, zip_uint64_t index, uint64_t claimed) {
  const Entry entry(zip_fopen_index(archive, index, 0));
  if (!entry) invalid(zip_strerror(archive));
  std::string bytes;
  constexpr size_t kChunk = size_t{1} << 20;
  for (;;) {
    const size_t done = bytes.size();
    bytes.resize(done + static_cast<size_t>(std::min<uint64_t>(kChunk + done, claimed - done + 1)));
    const zip_int64_t n = zip_fread(entry.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0) invalid(zip_file_strerror(entry.get()));
    bytes.resize(done + static_cast<size_t>(n));
    if (n == 0) return bytes;
    if (bytes.size() > claimed) invalid("it is longer than the archive says");
  }
}

[[noreturn]] void fail(const std::string& reason) { throw Error(Error::Kind::kIo, "can't write it: " + reason); }

// `contents` must stay until the archive is closed.
void add_entry(zip_t* archive, const std::string& name, const std::string& contents, bool compress) {
  zip_source_t* source = zip_source_buffer(archive, contents.data(), contents.size(), 0);
  const zip_int64_t index = source ? zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8) : -1;
  if (index < 0) {
    zip_source_free(source);
    fail(zip_strerror(archive));
  }
  const auto entry = static_cast<zip_uint64_t>(index);
  constexpr zip_uint16_t kFirstOfJanuary1980 = 0x21;  // the same arrays give the same file
  if (zip_set_file_compression(archive, entry, compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(archive, entry, 0, kFirstOfJanuary1980, 0) != 0)
    fail(zip_strerror(archive));
}

void copy_all(zip_source_t* from, OutputFile& to) {
  if (zip_source_open(from) != 0) fail(zip_error_strerror(zip_source_error(from)));
  std::string chunk(size_t{1} << 20, '\0');
  zip_int64_t n = 0;
  while ((n = zip_source_read(from, chunk.data(), chunk.size())) > 0)
    to.write(std::string_view(chunk).substr(0, static_cast<size_t>(n)));
  zip_source_close(from);
  if (n < 0) fail(zip_error_strerror(zip_source_error(from)));
}

// The archive is made in memory: libzip's own files would lie beside the rules of OutputFile.
void write_archive(const NamedTensors& tensors, bool compress, OutputFile& out) {
  ErrorText error;
  const Source memory(zip_source_buffer_create(nullptr, 0, 0, &error.error));
  if (!memory) fail(error.text());
  Archive archive(zip_open_from_source(memory.get(), ZIP_CREATE | ZIP_TRUNCATE, &error.error));
  if (!archive) fail(error.text());
  zip_source_keep(memory.get());  // the archive frees it once
  std::vector<std::string> contents;
  contents.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    contents.push_back(within("array '" + name + "'", [&, &t = tensor] { return serialize_npy(t); }));
    add_entry(archive.get(), name + ".npy", contents.back(), compress);
  }
  if (zip_close(archive.get()) != 0) fail(zip_strerror(archive.get()));
  (void)archive.release();
  contents.clear();
  copy_all(memory.get(), out);
}

}  // namespace

NamedTensors parse_npz(std::string_view bytes) {
  const Archive archive = open_archive(bytes);
  NamedTensors tensors;
  const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
  for (zip_uint64_t i = 0; i < static_cast<zip_uint64_t>(entries); ++i) {
    zip_stat_t status;
    if (zip_stat_index(archive.get(), i, 0, &status) != 0 || !(status.valid & ZIP_STAT_NAME))
      invalid(fmt::format("entry {}: {}", i, zip_strerror(archive.get())));
    std::string name = status.name;
    within("array '" + name + "'", [&] {
      if (!(status.valid & ZIP_STAT_SIZE)) invalid("its size isn't known");
      if (name.ends_with(".npy")) name.resize(name.size() - 4);
      Tensor tensor = parse_npy(read_entry(archive.get(), i, status.size));
      if (!tensors.emplace(std::move(name), std::move(tensor)).second) invalid("it is there twice");
    });
  }
  return tensors;
}

NamedTensors read_npz(const std::filesystem::path& file) {
  return within(file.string(), [&] {
    const FileBytes bytes = FileBytes::open(file);
    return parse_npz(bytes.bytes);
  });
}

void write_npz(const std::filesystem::path& file, const NamedTensors& tensors, bool compress) {
  within(file.string(), [&] {
    OutputFile out(file);
    if (tensors.empty()) {  // libzip writes no archive without entries
      constexpr char kEndOfDirectory[22] = {'P', 'K', 5, 6};
      out.write({kEndOfDirectory, sizeof kEndOfDirectory});
    } else {
      write_archive(tensors, compress, out);
    }
    out.commit();
  });
}

}  // namespace attune
