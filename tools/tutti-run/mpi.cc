// SPDX-License-Identifier: BSD-3-Clause
#include "mpi.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>

namespace tutti::run {
namespace {

namespace fs = std::filesystem;

// What a program says of its version; empty if it cannot be run.
std::string version_of(const std::string &program) {
  std::string quoted = "'";
  for (const char c : program) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  FILE *const output = popen((quoted + "' --version 2>/dev/null").c_str(), "r");
  if (output == nullptr) return {};
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t bytes = std::fread(part.data(), 1, part.size(), output)) text.append(part.data(), bytes);
  pclose(output);
  return text;
}

// Beside tutti-run, as it is built and as it is installed.
Result<std::string> library_for(const std::string &mpi) {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path();
  const std::string name = "libtutti-mpi-" + mpi + ".so";
  for (const char *place : {"lib", TUTTI_LIBRARY_FOLDER})
    if (const fs::path file = folder / place / name; fs::exists(file, ignored)) return file.string();
  return fail(Code::argument, "{} is not in {}: Tutti was built without the headers of that MPI", name,
              (folder / TUTTI_LIBRARY_FOLDER).string());
}

}  // namespace

Result<std::vector<std::string>> with_drop_in(const std::vector<std::string> &launch, const std::string &preloaded) {
  if (launch.empty()) return fail(Code::argument, "no launcher given: tutti-run --mpi mpirun -n N PROGRAM [arguments]");
  const std::string version = version_of(launch.front());
  const bool open_mpi = version.find("Open MPI") != std::string::npos || version.find("OpenRTE") != std::string::npos;
  const bool mpich = version.find("HYDRA") != std::string::npos;
  if (!open_mpi && !mpich)
    return fail(Code::argument, "{} --version names neither Open MPI nor MPICH's HYDRA: preload libtutti-mpi yourself",
                launch.front());
  TUTTI_TRY(std::string library, library_for(open_mpi ? "openmpi" : "mpich"));
  if (!preloaded.empty()) library += ":" + preloaded;
  std::vector<std::string> command = {launch.front()};
  if (open_mpi) command.insert(command.end(), {"-x", "LD_PRELOAD=" + library});
  else command.insert(command.end(), {"-genv", "LD_PRELOAD", library});
  command.insert(command.end(), launch.begin() + 1, launch.end());
  return command;
}

Error become(const std::vector<std::string> &command) {
  std::vector<char *> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string &argument : command) arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  return {Code::argument, fmt::format("cannot start {}", command.front()), -1, errno};
}

}  // namespace tutti::run
