#include "bespoke/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "bespoke/base/error.h"
#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"
#include "temporary_folder.h"

namespace bespoke {

using namespace detail;
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  // What is in the folder, by name.
  std::string listing() const {
    FILE* pipe = ::popen(("ls -A '" + folder_.string() + "'").c_str(), "r");
    char buffer[4096];
    std::string names(buffer, std::fread(buffer, 1, sizeof(buffer), pipe));
    ::pclose(pipe);
    return names;
  }

  static mode_t mode_of(const fs::path& path) {
    struct stat status = {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return status.st_mode & 0777;
  }

  testing::TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
};

TEST_F(FileTest, WritesAndReadsWhole) {
  const std::string content("a\0b\n", 4);
  write_file_atomically(folder_ / "x", content);
  EXPECT_EQ(read_file(folder_ / "x"), content);
  write_file_atomically(folder_ / "x", "new");
  EXPECT_EQ(read_file(folder_ / "x"), "new");
  EXPECT_EQ(listing(), "x\n") << "a temporary was left behind";
}

TEST_F(FileTest, AFailedWriteLeavesTheOldContent) {
  // The target is a folder that is not empty: the rename must fail.
  make_folders(folder_ / "taken" / "inside");
  EXPECT_THROW(write_file_atomically(folder_ / "taken", "new"), Error);
  EXPECT_TRUE(fs::is_directory(folder_ / "taken" / "inside"));
  EXPECT_EQ(listing(), "taken\n");
  EXPECT_THROW(write_file_atomically(folder_ / "no" / "such" / "folder", "x"), Error);
}

TEST_F(FileTest, MakesFoldersOrSaysWhyNot) {
  make_folders(folder_ / "a" / "b" / "c");
  make_folders(folder_ / "a" / "b" / "c");
  write_file_atomically(folder_ / "a" / "b" / "c" / "x", "content");
  EXPECT_THROW(make_folders(folder_ / "a" / "b" / "c" / "x"), Error);
  EXPECT_THROW(make_folders(folder_ / "a" / "b" / "c" / "x" / "y"), Error);
}

TEST_F(FileTest, SaysWhyItCannotRead) {
  try {
    read_file(folder_ / "absent");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 3);
    EXPECT_NE(std::string(error.what()).find("No such file"), std::string::npos);
  }
  EXPECT_THROW(read_file(folder_), Error);
}

// A process that dies while it writes leaves its temporary behind, and the next removes it. What
// another writes at the moment, and files that only look alike, stay.
TEST_F(FileTest, WhatAKilledWriterLeftIsRemoved) {
  const std::string left = ".bespoke-0123456789abcdef0123456789abcdef.part";
  const std::string held = ".bespoke-ffffffffffffffffffffffffffffffff.part";
  const std::string pipe = ".bespoke-00000000000000000000000000000000.part";
  for (const auto& name : {left, held, std::string("x.part"), std::string(".bespoke-1.part")}) {
    std::ofstream(folder_ / name) << "half a file";
  }
  ASSERT_EQ(::mkfifo((folder_ / pipe).c_str(), 0600), 0);
  const int descriptor = ::open((folder_ / held).c_str(), O_RDONLY);
  ASSERT_EQ(::flock(descriptor, LOCK_EX), 0);
  write_file_atomically(folder_ / "x", "new");
  ::close(descriptor);
  EXPECT_EQ(read_file(folder_ / "x"), "new");
  for (const auto& [name, stays] :
       std::vector<std::pair<std::string, bool>>{{left, false},
                                                 {held, true},
                                                 {pipe, true},
                                                 {"x.part", true},
                                                 {".bespoke-1.part", true}}) {
    EXPECT_EQ(fs::exists(folder_ / name), stays) << name;
  }
}

// Whoever knows the name of a temporary beforehand decides what becomes of the result.
TEST_F(FileTest, NothingPlantedBesideAFileHasAnInfluence) {
  write_file_atomically(folder_ / "precious", "old");
  ASSERT_EQ(::symlink("precious", (folder_ / "a.part").c_str()), 0);
  ASSERT_EQ(::mkfifo((folder_ / "b.part").c_str(), 0666), 0);
  std::ofstream(folder_ / "c.part") << "planted";
  ASSERT_EQ(::chmod((folder_ / "c.part").c_str(), 0666), 0);
  const int locked = ::open((folder_ / "c.part").c_str(), O_RDONLY);
  ASSERT_EQ(::flock(locked, LOCK_EX), 0);
  const mode_t mask = ::umask(022);
  for (const char* name : {"a", "b", "c"}) {
    write_file_atomically(folder_ / name, "content");
    EXPECT_EQ(fs::symlink_status(folder_ / name).type(), fs::file_type::regular) << name;
    EXPECT_EQ(mode_of(folder_ / name), 0644u) << name;
    EXPECT_EQ(read_file(folder_ / name), "content");
  }
  ::umask(mask);
  ::close(locked);
  EXPECT_EQ(read_file(folder_ / "precious"), "old");
}

TEST_F(FileTest, AFileThatIsReplacedKeepsItsMode) {
  for (const mode_t mode : {0600u, 0664u, 0755u}) {
    std::ofstream(folder_ / "x") << "old";
    ASSERT_EQ(::chmod((folder_ / "x").c_str(), mode), 0);
    write_file_atomically(folder_ / "x", "new");
    EXPECT_EQ(mode_of(folder_ / "x"), mode);
  }
}

// In a process of its own, since a signal that was asked for stays so.
TEST_F(FileTest, WaitsForAReaderInWordsAndUntilASignal) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const auto wait_and_be_interrupted = [&] {
    catch_interrupts();
    std::thread signal([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      ::kill(::getpid(), SIGINT);
    });
    signal.detach();
    try {
      write_file_atomically(folder_ / "pipe", "content");
    } catch (const Error& error) {
      std::_Exit(error.exit_code());
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(wait_and_be_interrupted(), ::testing::ExitedWithCode(130),
              "waiting for a reader of the pipe");
}

// A limit on the size of files ends a program that does not ask otherwise.
TEST_F(FileTest, AFileThatMayNotGrowIsAFailedWrite) {
  const auto write_too_much = [&] {
    guard_standard_streams();
    const rlimit small = {1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &small);
    try {
      write_file_atomically(folder_ / "x", std::string(5000, 'x'));
    } catch (const Error& error) {
      write_to_stderr(error.what());
      std::_Exit(error.exit_code());
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(write_too_much(), ::testing::ExitedWithCode(1), "cannot write '.*File too large");
  EXPECT_EQ(listing(), "");
}

TEST_F(FileTest, TwoWritersOfOneFileDoNotMix) {
  const auto write = [&](char letter) {
    for (int i = 0; i < 200; ++i) write_file_atomically(folder_ / "x", std::string(20000, letter));
  };
  std::thread other(write, 'b');
  write('a');
  other.join();
  const std::string content = read_file(folder_ / "x");
  ASSERT_EQ(content.size(), 20000u);
  EXPECT_EQ(content, std::string(20000, content[0]));
  EXPECT_EQ(listing(), "x\n");
}

TEST_F(FileTest, LinksStayAndLeadToWhatIsWritten) {
  make_folders(folder_ / "elsewhere");
  write_file_atomically(folder_ / "elsewhere/x", "old");
  ASSERT_EQ(::symlink("elsewhere/x", (folder_ / "link").c_str()), 0);
  ASSERT_EQ(::symlink("link", (folder_ / "second").c_str()), 0);
  ASSERT_EQ(::symlink("elsewhere/new", (folder_ / "dangling").c_str()), 0);
  ASSERT_EQ(::symlink("loop", (folder_ / "loop").c_str()), 0);
  write_file_atomically(folder_ / "second", "through two links");
  EXPECT_EQ(read_file(folder_ / "elsewhere/x"), "through two links");
  write_file_atomically(folder_ / "dangling", "into nothing");
  EXPECT_EQ(read_file(folder_ / "elsewhere/new"), "into nothing");
  EXPECT_THROW(write_file_atomically(folder_ / "loop", "round"), Error);
  for (const char* name : {"link", "second", "dangling"}) {
    EXPECT_TRUE(fs::is_symlink(folder_ / name)) << name;
  }
}

TEST_F(FileTest, PipesAreWrittenThrough) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] {
    std::ostringstream content;
    content << std::ifstream(folder_ / "pipe").rdbuf();
    received = content.str();
  });
  write_file_atomically(folder_ / "pipe", "content");
  reader.join();
  EXPECT_EQ(received, "content");
  struct stat status;
  ASSERT_EQ(::stat((folder_ / "pipe").c_str(), &status), 0);
  EXPECT_TRUE(S_ISFIFO(status.st_mode));
  EXPECT_EQ(listing(), "pipe\n");
}

TEST_F(FileTest, ReadsNothingWithoutAnEnd) {
  ASSERT_EQ(::symlink("loop", (folder_ / "loop").c_str()), 0);
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  write_file_atomically(folder_ / "large", "");
  ASSERT_EQ(::truncate((folder_ / "large").c_str(), (1 << 26) + 1), 0);
  const auto refusal_of = [](const fs::path& path) -> std::string {
    try {
      read_text_file(path);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 3);
      return error.what();
    }
  };
  EXPECT_NE(refusal_of("/dev/zero").find("is a device or a pipe"), std::string::npos);
  EXPECT_NE(refusal_of(folder_ / "pipe").find("is a device or a pipe"), std::string::npos);
  EXPECT_NE(refusal_of(folder_ / "loop").find("cannot read"), std::string::npos);
  EXPECT_NE(refusal_of(folder_ / std::string(5000, 'n')).find("File name too long"),
            std::string::npos);
  EXPECT_NE(refusal_of(folder_ / "large").find("has 67108865 bytes"), std::string::npos);
}

TEST_F(FileTest, TellsFilesFromFoldersAndNothing) {
  write_file_atomically(folder_ / "x", "content");
  EXPECT_TRUE(is_file(folder_ / "x"));
  EXPECT_FALSE(is_file(folder_));
  EXPECT_FALSE(is_file(folder_ / "absent"));
}

TEST_F(FileTest, ListsFilesBelowAFolder) {
  make_folders(folder_ / "a/b");
  make_folders(folder_ / "empty");
  make_folders(folder_ / ".hidden");
  for (const auto& name : {"x", "a/y", "a/b/z", ".dot", ".hidden/w", "a/.dot"}) {
    write_file_atomically(folder_ / name, "content");
  }
  std::vector<std::string> files = list_files(folder_);
  std::sort(files.begin(), files.end());
  EXPECT_EQ(files, (std::vector<std::string>{"a/b/z", "a/y", "x"}));
  EXPECT_THROW(list_files(folder_ / "absent"), Error);
  EXPECT_THROW(list_files(folder_ / "x"), Error);
}

TEST_F(FileTest, FollowsLinksButNotInCircles) {
  make_folders(folder_ / "a");
  make_folders(folder_ / "elsewhere");
  write_file_atomically(folder_ / "elsewhere/x", "content");
  ASSERT_EQ(::symlink("..", (folder_ / "a/up").c_str()), 0);
  ASSERT_EQ(::symlink("nothing", (folder_ / "a/dangling").c_str()), 0);
  ASSERT_EQ(::symlink("../elsewhere", (folder_ / "a/there").c_str()), 0);
  std::vector<std::string> files = list_files(folder_);
  std::sort(files.begin(), files.end());
  EXPECT_EQ(files, (std::vector<std::string>{"a/dangling", "a/there/x", "elsewhere/x"}));
}

}  // namespace
}  // namespace bespoke
