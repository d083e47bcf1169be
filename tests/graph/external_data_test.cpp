#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <numeric>
#include <set>

#include "graph/io/onnx_protos.h"
#include "graph/io/reader.h"
#include "graph/io/writer.h"
#include "tests/support/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using test::IsError;
using test::TemporaryFolder;
using test::thrown;
using Kind = Error::Kind;

using Entries = std::vector<std::pair<std::string, std::string>>;

// A model of one float tensor w of 4 elements in an external file.
std::string model_bytes(const Entries& entries) {
  onnx::ModelProto proto;
  proto.set_ir_version(10);
  proto.add_opset_import()->set_version(21);
  auto& t = *proto.mutable_graph()->add_initializer();
  t.set_name("w");
  t.set_data_type(onnx::TensorProto::FLOAT);
  t.add_dims(4);
  t.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : entries) {
    auto& e = *t.add_external_data();
    e.set_key(key);
    e.set_value(value);
  }
  return proto.SerializeAsString();
}

std::string floats(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0f);
  return {reinterpret_cast<const char*>(values.data()), 4 * n};
}

std::vector<double> read_w(const TemporaryFolder& folder, const Entries& entries) {
  const Model m = read_model(folder.write("model.onnx", model_bytes(entries)));
  return m.graph->constants().front()->constant()->to_double();
}

TEST(ExternalData, OffsetAndLength) {
  const TemporaryFolder folder;
  folder.write("w.bin", floats(8));
  EXPECT_EQ(read_w(folder, {{"location", "w.bin"}}), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(read_w(folder, {{"location", "w.bin"}, {"offset", "16"}}), (std::vector<double>{4, 5, 6, 7}));
  EXPECT_EQ(read_w(folder, {{"location", "./w.bin"}, {"offset", "8"}, {"length", "16"}, {"checksum", "x"}}),
            (std::vector<double>{2, 3, 4, 5}));
  fs::create_directory(folder / "sub");
  fs::copy(folder / "w.bin", folder / "sub/w.bin");
  EXPECT_EQ(read_w(folder, {{"location", "sub/w.bin"}}), (std::vector<double>{0, 1, 2, 3}));
}

TEST(ExternalData, UnalignedOffsetsAreCopied) {
  const TemporaryFolder folder;
  folder.write("w.bin", "abc" + floats(4));
  EXPECT_EQ(read_w(folder, {{"location", "w.bin"}, {"offset", "3"}}), (std::vector<double>{0, 1, 2, 3}));
}

TEST(ExternalData, CanBeLeftOut) {
  const TemporaryFolder folder;
  const Model m =
      read_model(folder.write("model.onnx", model_bytes({{"location", "missing"}})), {.external_data = false});
  const Value& w = *m.graph->constants().front();
  EXPECT_EQ(w.constant(), nullptr);
  EXPECT_EQ(w.type().to_string(), "float(4)");
}

TEST(ExternalData, LocationsThatLeaveTheFolder) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "model");
  folder.write("outside.bin", floats(4));
  const auto refused = [&](const std::string& location, const char* message) {
    std::ofstream(folder / "model/model.onnx", std::ios::binary) << model_bytes({{"location", location}});
    EXPECT_THAT(thrown([&] { read_model(folder / "model/model.onnx"); }), IsError(Kind::kInvalidModel, message))
        << location;
  };
  refused("../outside.bin", "leaves the model's folder");
  refused("sub/../../outside.bin", "leaves the model's folder");
  refused("..", "leaves the model's folder");
  refused((folder / "outside.bin").string(), "leaves the model's folder");
  refused("/etc/passwd", "leaves the model's folder");
  refused("", "location is missing");
  refused(std::string("w\0.bin", 6), "location is missing");

  fs::create_symlink(folder / "outside.bin", folder / "model/absolute_link");
  refused("absolute_link", "is a link out of the model's folder");
  fs::create_symlink("../outside.bin", folder / "model/relative_link");
  refused("relative_link", "is a link out of the model's folder");
  fs::create_symlink(folder.path(), folder / "model/folder_link");
  refused("folder_link/outside.bin", "is a link out of the model's folder");
  fs::create_hard_link(folder / "outside.bin", folder / "model/hard_link");
  refused("hard_link", "has a hard link outside of the model's folder");
}

TEST(ExternalData, LinksWithinTheFolderAreFine) {
  const TemporaryFolder folder;
  folder.write("w.bin", floats(4));
  fs::create_symlink("w.bin", folder / "link");
  fs::create_hard_link(folder / "w.bin", folder / "hard");
  EXPECT_EQ(read_w(folder, {{"location", "link"}}).size(), 4u);
  EXPECT_EQ(read_w(folder, {{"location", "hard"}}).size(), 4u);
  // The model's folder may itself be behind a link.
  const TemporaryFolder other;
  fs::create_directory_symlink(folder.path(), other / "models");
  EXPECT_EQ(read_model(other / "models/model.onnx").graph->constants().front()->constant()->count(), 4);
}

// Hugging Face's cache: files in one folder, links to them in another.
TEST(ExternalData, LinksToTheFolderOfTheLinkedModel) {
  const TemporaryFolder cache;
  fs::create_directories(cache / "blobs");
  fs::create_directories(cache / "snapshots/main");
  std::ofstream(cache / "blobs/1", std::ios::binary) << model_bytes({{"location", "w.bin"}});
  std::ofstream(cache / "blobs/2", std::ios::binary) << floats(4);
  fs::create_symlink("../../blobs/1", cache / "snapshots/main/model.onnx");
  fs::create_symlink("../../blobs/2", cache / "snapshots/main/w.bin");
  std::set<fs::path> files;
  const Model m = read_model(cache / "snapshots/main/model.onnx", {.external_files = &files});
  EXPECT_EQ(m.graph->constants().front()->constant()->to_double(), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(files, (std::set<fs::path>{cache / "snapshots/main/w.bin"}));
  // Elsewhere, and by a path that climbs, it is refused as ever.
  const auto refused = [&](const char* message) {
    EXPECT_THAT(thrown([&] { read_model(cache / "snapshots/main/model.onnx"); }),
                IsError(Kind::kInvalidModel, message));
  };
  fs::rename(cache / "blobs/2", cache / "2");
  fs::remove(cache / "snapshots/main/w.bin");
  fs::create_symlink("../../2", cache / "snapshots/main/w.bin");
  refused("is a link out of the model's folder");
  std::ofstream(cache / "blobs/1", std::ios::binary) << model_bytes({{"location", "../../blobs/2"}});
  refused("leaves the model's folder");
}

TEST(ExternalData, NumbersThatDoNotFit) {
  const TemporaryFolder folder;
  folder.write("w.bin", floats(4));
  const auto refused = [&](Entries entries, const char* message) {
    entries.emplace_back("location", "w.bin");
    EXPECT_THAT(thrown([&] { read_w(folder, entries); }), IsError(Kind::kInvalidModel, message));
  };
  refused({{"offset", "1"}}, "pass the end of 'w.bin' (16 bytes)");
  refused({{"offset", "17"}}, "pass the end");
  refused({{"offset", "18446744073709551615"}}, "pass the end");
  refused({{"offset", "18446744073709551616"}}, "offset '18446744073709551616' isn't a byte count");
  refused({{"offset", "-1"}}, "isn't a byte count");
  refused({{"offset", "0x10"}}, "isn't a byte count");
  refused({{"offset", " 1"}}, "isn't a byte count");
  refused({{"length", "15"}}, "length 15 where the shape needs 16 bytes");
  refused({{"length", "17"}}, "length 17");
  refused({{"length", "18446744073709551615"}}, "length 18446744073709551615");
}

TEST(ExternalData, WhatIsNoFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(thrown([&] { read_w(folder, {{"location", "missing.bin"}}); }), IsError(Kind::kIo, "missing.bin"));
  fs::create_directory(folder / "directory");
  EXPECT_THAT(thrown([&] { read_w(folder, {{"location", "directory"}}); }), IsError(Kind::kIo, "directory"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(thrown([&] { read_w(folder, {{"location", "pipe"}}); }), IsError(Kind::kIo, "isn't a regular file"));
}

// ---- Writing

Model model_with(const std::vector<std::pair<std::string, Tensor>>& constants) {
  Model m;
  m.ir_version = 10;
  m.opset_imports[""] = 21;
  for (const auto& [name, tensor] : constants) m.graph->add_constant(tensor, name);
  return m;
}

Tensor counting(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 0.0f);
  return Tensor::from<float>({n}, values);
}

TEST(Writer, LargeTensorsGoToOneFile) {
  const TemporaryFolder folder;
  const Tensor shared = counting(5000);
  Model m = model_with({{"a", shared}, {"b", shared}, {"small", counting(3)}, {"c", counting(1000)}});
  write_model(m, folder / "m.onnx", {1024, 0});
  EXPECT_EQ(folder.entries(), 2u);
  EXPECT_LT(fs::file_size(folder / "m.onnx"), 1000u);
  // a and b are there once; c begins at the next page.
  EXPECT_EQ(fs::file_size(folder / "m.onnx.data"), 5 * 4096 + 4000u);
  const Model again = read_model(folder / "m.onnx");
  ASSERT_EQ(again.graph->constants().size(), 4u);
  for (const auto& v : again.graph->constants()) {
    const Tensor& t = *v->constant();
    const auto expected = counting(t.count());
    EXPECT_EQ(t.to_double(), expected.to_double()) << v->name();
  }
}

TEST(Writer, StaysBelowTheThreshold) {
  const TemporaryFolder folder;
  Model m = model_with({{"a", counting(5000)}});
  write_model(m, folder / "m.onnx", {1024, 20000});
  EXPECT_EQ(folder.entries(), 1u);
  write_model(m, folder / "m.onnx", {1024, 19999});
  EXPECT_EQ(folder.entries(), 2u);
}

TEST(Writer, OverwritesWhatItReads) {
  const TemporaryFolder folder;
  Model first = model_with({{"a", counting(50000)}});
  write_model(first, folder / "m.onnx", {1024, 0});
  Model m = read_model(folder / "m.onnx");  // its tensors are views of m.onnx.data
  m.graph->add_constant(counting(3000), "b");
  write_model(m, folder / "m.onnx", {1024, 0});
  EXPECT_EQ(folder.entries(), 2u);
  const Model again = read_model(folder / "m.onnx");
  EXPECT_EQ(again.graph->constants().front()->constant()->to_double(), counting(50000).to_double());
  EXPECT_EQ(again.graph->constants().back()->constant()->to_double(), counting(3000).to_double());
}

TEST(Writer, FailuresLeaveNothing) {
  const TemporaryFolder folder;
  Model m = model_with({{"a", counting(100000)}});
  EXPECT_THAT(thrown([&] { write_model(m, folder / "missing/m.onnx"); }),
              IsError(Kind::kIo, "m.onnx: can't create it"));
  EXPECT_THAT(thrown([&] { write_model(m, folder.path()); }), IsError(Kind::kIo, "directory"));
  EXPECT_EQ(folder.entries(), 0u);
}

// A limit on the size of files stands for a full disk: both fail in write().
TEST(Writer, AFullDiskLeavesTheOldFile) {
  const TemporaryFolder folder;
  Model old = model_with({{"old", counting(3)}});
  write_model(old, folder / "m.onnx");
  const std::string before = test::read_file(folder / "m.onnx");
  Model m = model_with({{"a", counting(100000)}, {"b", counting(100001)}});
  rlimit limit{}, small{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  small = limit;
  small.rlim_cur = 300000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Error embedded = thrown([&] { write_model(m, folder / "m.onnx"); });
  const Error external = thrown([&] { write_model(m, folder / "m.onnx", {1024, 0}); });
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(embedded, IsError(Kind::kIo, "can't write it: File too large"));
  EXPECT_THAT(external, IsError(Kind::kIo, "can't write it: File too large"));
  EXPECT_EQ(folder.entries(), 1u);
  EXPECT_EQ(test::read_file(folder / "m.onnx"), before);
}

// Weights are views of the file where they lie aligned in it; the model is right either way, and after the
// file has gone.
TEST(Reader, MapsLargeFiles) {
  const TemporaryFolder folder;
  std::vector<std::pair<std::string, Tensor>> constants;
  for (size_t i = 0; i < 8; ++i) constants.emplace_back(std::string(i + 1, 'n'), counting(10000));
  Model m = model_with(constants);
  write_model(m, folder / "m.onnx");
  const Model again = read_model(folder / "m.onnx");
  fs::remove(folder / "m.onnx");
  for (const auto& v : again.graph->constants()) {
    EXPECT_EQ(v->constant()->to_double(), counting(10000).to_double());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(v->constant()->raw()) % alignof(float), 0u);
  }
}

TEST(ExternalData, SaysWhichFilesItReads) {
  const TemporaryFolder folder;
  folder.write("w.bin", floats(4));
  std::set<fs::path> files;
  ReadOptions options;
  options.external_files = &files;
  read_model(folder.write("model.onnx", model_bytes({{"location", "w.bin"}})), options);
  EXPECT_EQ(files, std::set<fs::path>{folder / "w.bin"});
}

}  // namespace
}  // namespace attune
