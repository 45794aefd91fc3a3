#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "bespoke/base/file.h"
#include "temporary_folder.h"

namespace bespoke {

namespace fs = std::filesystem;

struct Outcome {
  int code;
  std::string out, err;
};

// The program that has a command, for a shell: the first word of `arguments` says which.
inline std::string program_for(const std::string& arguments) {
  static const std::set<std::string> training = {"transformer", "unet",       "autoencoder",
                                                 "audio-codec", "classifier", "progressive"};
  const bool trains = training.count(arguments.substr(0, arguments.find(' '))) > 0;
  return trains ? "'" BESPOKE_TRAIN_BINARY "' " : "'" BESPOKE_BINARY "' ";
}

// Runs the program in a folder of the test's own, with a cache of the test's own.
class CommandLine : public ::testing::Test {
 protected:
  Outcome run(const std::string& arguments) const {
    const std::string command = "cd '" + folder_.string() + "' && XDG_CACHE_HOME='" +
                                (folder_ / "cache").string() + "' " + program_for(arguments) +
                                arguments + " >out.txt 2>err.txt";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), detail::read_file(folder_ / "out.txt"),
            detail::read_file(folder_ / "err.txt")};
  }

  // Runs it with the shell's own `redirections`; its exit code.
  int run_with(const std::string& arguments, const std::string& redirections) const {
    const std::string command = "cd '" + folder_.string() + "' && XDG_CACHE_HOME='" +
                                (folder_ / "cache").string() + "' '" BESPOKE_BINARY "' " +
                                arguments + " " + redirections;
    return WEXITSTATUS(std::system(command.c_str()));
  }

  // What a command of the shell prints.
  std::string run_shell(const std::string& command) const {
    const std::string file = (folder_ / "shell.txt").string();
    EXPECT_EQ(std::system(("{ " + command + "; } >'" + file + "'").c_str()), 0) << command;
    return detail::read_file(file);
  }

  // Runs it and sends a signal once the shell's `condition` on the folder and $pid holds: after a
  // time, a slow machine would not have begun and a fast one have ended.
  Outcome interrupt_when(const std::string& condition, const std::string& arguments) const {
    return signal_when("INT", condition, arguments);
  }

  // The same with a signal that no program can answer.
  Outcome kill_when(const std::string& condition, const std::string& arguments) const {
    return signal_when("KILL", condition, arguments);
  }

  Outcome signal_when(const std::string& signal, const std::string& condition,
                      const std::string& arguments) const {
    const std::string command =
        "cd '" + folder_.string() + "' && { " + program_for(arguments) + arguments +
        " >out.txt 2>err.txt & } && pid=$! && " + "while kill -0 $pid 2>/dev/null && ! " +
        condition + "; do sleep 0.01; done; kill -" + signal + " $pid 2>/dev/null; wait $pid";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), detail::read_file(folder_ / "out.txt"),
            detail::read_file(folder_ / "err.txt")};
  }

  // A failure is one sentence on stderr, nothing on stdout, and the right code.
  void expect_failure(const std::string& arguments, int code, const std::string& expected) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_NE(outcome.err.find(expected), std::string::npos) << arguments << "\n" << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }

  testing::TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
};

}  // namespace bespoke
