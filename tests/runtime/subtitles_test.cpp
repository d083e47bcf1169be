#include "runtime/audio/subtitles.h"

#include <gtest/gtest.h>

#include "graph/error.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

Transcript transcript() {
  Transcript t;
  t.segments.resize(4);
  t.segments[0] = {0.5, 2.25, {}, " First words.", {}, {}, {}, 0, 0};
  t.segments[1] = {2.25, 2.5, {}, "  ", {}, {}, {}, 0, 0};
  t.segments[2] = {61.0, 3599.9996, {}, " a --> b\n\n<i> & c", {}, {}, {}, 0, 0};
  t.segments[3] = {3601.5, 7384.04, {}, "Ende", {}, {}, {}, 0, 0};
  return t;
}

TEST(Subtitles, SubRip) {
  EXPECT_EQ(subtitles_srt(transcript()),
            "1\n00:00:00,500 --> 00:00:02,250\nFirst words.\n\n"
            "2\n00:01:01,000 --> 01:00:00,000\na -> b\n<i> & c\n\n"
            "3\n01:00:01,500 --> 02:03:04,040\nEnde\n\n");
}

TEST(Subtitles, WebVtt) {
  EXPECT_EQ(subtitles_vtt(transcript()),
            "WEBVTT\n\n"
            "00:00.500 --> 00:02.250\nFirst words.\n\n"
            "01:01.000 --> 01:00:00.000\na --&gt; b\n&lt;i&gt; &amp; c\n\n"
            "01:00:01.500 --> 02:03:04.040\nEnde\n\n");
  EXPECT_EQ(subtitles_vtt({}), "WEBVTT\n\n");
}

TEST(Subtitles, FilesByExtension) {
  const test::TemporaryFolder folder;
  write_subtitles(transcript(), (folder / "a.srt").string());
  write_subtitles(transcript(), (folder / "a.vtt").string());
  EXPECT_EQ(test::read_file(folder / "a.srt"), subtitles_srt(transcript()));
  EXPECT_EQ(test::read_file(folder / "a.vtt"), subtitles_vtt(transcript()));
  EXPECT_THROW(write_subtitles(transcript(), (folder / "a.txt").string()), Error);
  EXPECT_EQ(folder.entries(), 2U);
}

}  // namespace
}  // namespace attune
