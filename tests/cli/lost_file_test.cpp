#include "cli/lost_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

constexpr size_t kBytes = 1 << 16;

int last_byte_after_shortening(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY);
  void* bytes = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  ::close(descriptor);
  if (bytes == MAP_FAILED) return 0;
  std::filesystem::resize_file(file, 100);
  return static_cast<volatile const char*>(bytes)[kBytes - 1];
}

TEST(LostFile, AMappedFileThatIsShortenedEndsTheProgramWithItsName) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("weights.bin", std::string(kBytes, 'x'));
  EXPECT_EXIT(
      {
        cli::report_lost_files();
        std::_Exit(last_byte_after_shortening(file));
      },
      ::testing::ExitedWithCode(2), "^attune: .*/weights.bin: it was shortened.*\n$");
}

}  // namespace
}  // namespace attune
