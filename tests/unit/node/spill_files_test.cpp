// The node's spill on a real disk: what is written is read, files go with their last chunk, the folder is one process's and begins empty.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "cluster/node/spill_files.hpp"

namespace zaris::node {
namespace {

class SpillFilesTest : public testing::Test {
 protected:
  SpillFilesTest() : folder_(std::filesystem::temp_directory_path() / ("zaris-spill-" + std::to_string(::getpid()))) { std::filesystem::remove_all(folder_); }
  ~SpillFilesTest() override { std::filesystem::remove_all(folder_); }

  static Result<store::SpillPlace> write(SpillFiles& files, std::string bytes) {
    std::promise<Result<store::SpillPlace>> answer;
    files.write(std::move(bytes), [&](Result<store::SpillPlace> place) { answer.set_value(std::move(place)); });
    return answer.get_future().get();
  }
  static Result<std::string> read(SpillFiles& files, const store::SpillPlace& place) {
    std::promise<Result<std::string>> answer;
    files.read(place, [&](Result<std::string> bytes) { answer.set_value(std::move(bytes)); });
    return answer.get_future().get();
  }
  [[nodiscard]] std::uint64_t files_there() const {
    std::uint64_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) count += entry.path().filename() != "lock" ? 1 : 0;
    return count;
  }

  const std::filesystem::path folder_;
};

TEST_F(SpillFilesTest, WhatIsWrittenIsReadAndFilesGoWithTheirLastChunk) {
  auto files = *SpillFiles::open(folder_, 16 << 20);
  std::vector<store::SpillPlace> places;
  for (int i = 0; i < 40; ++i) places.push_back(*write(*files, std::string(100'000, static_cast<char>('a' + i % 26))));
  EXPECT_GE(files_there(), 4u);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(*read(*files, places[static_cast<std::size_t>(i)]), std::string(100'000, static_cast<char>('a' + i % 26)));
  for (int i = 0; i < 40; ++i) files->drop(places[static_cast<std::size_t>(i)]);
  EXPECT_LE(files_there(), 1u) << "but the one that is written to";
  EXPECT_FALSE(read(*files, places[0]).has_value());
  const auto place = write(*files, "more");
  EXPECT_EQ(*read(*files, *place), "more");
}

TEST_F(SpillFilesTest, TheFolderIsEmptiedAtStartOfItsOwnFilesAlone) {
  { const auto files = *SpillFiles::open(folder_, 16 << 20); }
  std::ofstream(folder_ / "spill-00000099.chunks") << "of a process that was killed";
  std::ofstream(folder_ / "somebody-elses") << "kept";
  auto files = *SpillFiles::open(folder_, 16 << 20);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "spill-00000099.chunks"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "somebody-elses"));
  (void)write(*files, "x");
  files.reset();
  EXPECT_EQ(files_there(), 1u) << "nothing is left behind by a clean stop";
}

TEST_F(SpillFilesTest, OneProcessAtATimeAndAReasonWhereItCannotBe) {
  const auto first = SpillFiles::open(folder_, 16 << 20);
  const auto second = SpillFiles::open(folder_, 16 << 20);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, "spill_in_use");
  std::ofstream(folder_ / "a-file") << "x";
  const auto third = SpillFiles::open(folder_ / "a-file" / "below", 16 << 20);
  ASSERT_FALSE(third.has_value());
  EXPECT_EQ(third.error().code, "spill_unusable");
}

TEST_F(SpillFilesTest, WhatIsWaitingWhenItStopsIsAnswered) {
  auto files = *SpillFiles::open(folder_, 16 << 20);
  int answered = 0;
  std::mutex lock;
  for (int i = 0; i < 200; ++i) {
    files->write(std::string(50'000, 'x'), [&](const Result<store::SpillPlace>&) {
      const std::lock_guard hold(lock);
      ++answered;
    });
  }
  files.reset();
  EXPECT_EQ(answered, 200);
}

}  // namespace
}  // namespace zaris::node
