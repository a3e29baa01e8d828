#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# Checks on the tree as a whole, for what compilers do not see. Each check is a function from a Tree to findings, one line
# each: "file:line: what is wrong". tests/tidy/test_tidy.py shows for each that it can fail.
#   tests/tidy/tidy.py [--root DIR] [CHECK...]     without names: all of them
import argparse
import functools
import os
import re
import subprocess
import sys

SOURCE = (".cc", ".h", ".hpp", ".c")
MAX_LINES = 500

# Rooms, and who may include whom (docs/ARCHITECTURE.md): direct edges; a room may also include what those may. An entry
# "room/file.h" allows that file only and nothing behind it.
EDGES = {
    "base": [],
    "net": ["base"],
    "bootstrap": ["net"],
    "control": ["net"],
    "collectives": ["base"],
    "topology": ["base"],
    "reduce": ["base"],
    "verbs": ["topology"],
    "softdev": ["base", "verbs/api.h"],
    "link": ["base"],
    "mesh": ["link", "verbs", "control"],
    "exec": ["mesh", "reduce", "collectives/schedule.h"],
    "match": ["mesh"],
    "comm": ["exec", "match", "collectives"],
    "api": ["comm", "bootstrap", "softdev"],
    # Programs go through the public interface; base gives them text, sizes and the clock.
    "tutti-run": ["net"],
    "tutti-perf": ["base"],
    "tutti-info": ["base"],
    "tutti-sched": ["collectives"],
    "tutti-tune": ["tutti-perf", "collectives"],
}
# Every room may return the public codes; only these may use nothing else.
PUBLIC_ONLY = ("include", "examples", "python", "mpi")
ANY = ("tests", "bench")
VERBS_HEADER = ("src/verbs/", "src/softdev/", "src/mesh/", "tests/", "bench/")
GETENV = "src/base/config.cc"


class Tree:
    """The files under a root, as git knows them (also new ones), or all where there is no git."""

    def __init__(self, root):
        self.root = root

    @functools.cached_property
    def files(self):
        listed = subprocess.run(["git", "-C", self.root, "ls-files", "-co", "--exclude-standard"],
                                capture_output=True, text=True)
        if listed.returncode == 0 and os.path.exists(os.path.join(self.root, ".git")):
            names = listed.stdout.splitlines()
        else:
            names = [os.path.relpath(os.path.join(folder, name), self.root)
                     for folder, _, inside in os.walk(self.root) for name in inside]
        return sorted(name for name in set(names)
                      if not name.startswith("build/") and os.path.isfile(os.path.join(self.root, name)))

    @functools.lru_cache(maxsize=None)
    def text(self, name):
        try:
            with open(os.path.join(self.root, name), encoding="utf-8") as file:
                return file.read()
        except (UnicodeDecodeError, FileNotFoundError):
            return ""

    def lines(self, name):
        return enumerate(self.text(name).splitlines(), 1)

    def sources(self):
        return [name for name in self.files if name.endswith(SOURCE)]

    def documents(self):
        return [name for name in self.files
                if name.endswith(".md") and not name.startswith("tests/") and name != "docs/ROADMAP.md"]


def code_lines(tree, name):
    """Lines without comments and string contents: what the compiler acts on."""
    inside = False
    for number, line in tree.lines(name):
        if inside:
            if "*/" not in line:
                continue
            line, inside = line.split("*/", 1)[1], False
        line = re.sub(r'"(?:[^"\\]|\\.)*"', '""', line) if not line.lstrip().startswith("#include") else line
        line = re.sub(r"/\*.*?\*/", "", line).split("//")[0]
        if "/*" in line:
            line, inside = line.split("/*")[0], True
        yield number, line


def room_of(name):
    parts = name.split("/")
    if parts[0] in ("src", "tools") and len(parts) > 2:
        return parts[1]
    return parts[0]


def reachable(room, seen=None):
    """Rooms and single files that a room may include."""
    seen = set() if seen is None else seen
    for target in EDGES.get(room, []):
        if target not in seen:
            seen.add(target)
            if "/" not in target:
                reachable(target, seen)
    return seen


def check_includes(tree):
    rooms = {room_of(name) for name in tree.sources() if name.startswith(("src/", "tools/"))}
    rooms |= {"bootstrap", "collectives"} | set(EDGES)
    for name in tree.sources():
        room = room_of(name)
        if room in ANY:
            continue
        for number, line in code_lines(tree, name):
            # Ours are quoted; <net/if.h> is the system's.
            found = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if not found or "/" not in found[1]:
                continue
            target = found[1].split("/")[0]
            if target == "tutti" or target == room or target not in rooms:
                continue
            allowed = set() if room in PUBLIC_ONLY else reachable(room)
            if target not in allowed and found[1] not in allowed:
                yield f"{name}:{number}: {room} may not include {found[1]}"


def check_rooms(tree):
    for name in tree.sources():
        if name.startswith(("src/", "tools/")) and room_of(name) not in EDGES:
            yield f"{name}:1: the room {room_of(name)} has no row in the include table of tests/tidy/tidy.py"


def check_verbs_header(tree):
    for name in tree.sources():
        if name.startswith(VERBS_HEADER):
            continue
        for number, line in code_lines(tree, name):
            if re.match(r"\s*#\s*include\s*[<\"]infiniband/", line):
                yield f"{name}:{number}: <infiniband/...> stays inside verbs, softdev and mesh"


def check_getenv(tree):
    for name in tree.sources():
        if name == GETENV or room_of(name) in ANY:
            continue
        for number, line in code_lines(tree, name):
            if re.search(r"\b(secure_)?getenv\s*\(|\benviron\b", line):
                yield f"{name}:{number}: the environment is read in {GETENV} only; take a Config or an Environment"


def check_spdx(tree):
    wanted = SOURCE + (".py", ".cmake", ".sh")
    for name in tree.files:
        text = tree.text(name)
        if not name.endswith(wanted) and not text.startswith("#!"):
            continue
        if "SPDX-License-Identifier: BSD-3-Clause" not in "\n".join(text.splitlines()[:3]):
            yield f"{name}:1: no SPDX-License-Identifier: BSD-3-Clause at the top"


def check_whitespace(tree):
    for name in tree.files:
        if not name.endswith(SOURCE + (".py", ".md", ".txt", ".cmake", ".json", ".in")):
            continue
        for number, line in tree.lines(name):
            if "\t" in line:
                yield f"{name}:{number}: tab"
            if line != line.rstrip():
                yield f"{name}:{number}: blanks at the end of the line"
        if tree.text(name) and not tree.text(name).endswith("\n"):
            yield f"{name}:1: no newline at the end of the file"


def check_length(tree):
    for name in tree.sources():
        lines = tree.text(name).count("\n")
        if lines > MAX_LINES:
            yield f"{name}:{lines}: more than {MAX_LINES} lines; a file is one noun"


def check_habits(tree):
    """Header guards, using-directives in headers, files without a word on their purpose."""
    for name in tree.sources():
        if name.startswith(("tests/", "bench/")):
            continue
        header = name.endswith((".h", ".hpp"))
        # Highway includes its -inl.h files once per target.
        guarded = name.startswith("include/") or name.endswith("-inl.h") or "#pragma once" in tree.text(name)
        if header and not guarded:
            yield f"{name}:1: no #pragma once"
        if header and not re.search(r"^(//|\s\*) \w", "\n".join(tree.text(name).splitlines()[1:6]), re.M):
            yield f"{name}:1: a header opens with its purpose and invariant"
        for number, line in code_lines(tree, name):
            if header and re.match(r"\s*using\s+namespace\b", line):
                yield f"{name}:{number}: using namespace in a header"


def check_c_interface(tree):
    """No C++ type crosses the library's boundary, and what is exported has the prefix."""
    for name in tree.files:
        if name.startswith("include/") and name.endswith(".h"):
            for number, line in code_lines(tree, name):
                if re.search(r"\bstd::|\bbool\b|\btemplate\b|\bnamespace\b", line):
                    yield f"{name}:{number}: the C interface takes C types only"
                if line.startswith("TUTTI_API") and not re.search(r"\btutti_\w+\(", line):
                    yield f"{name}:{number}: exported names start with tutti_"
        elif name.startswith("src/"):
            for number, line in code_lines(tree, name):
                if re.search(r'extern ""|extern "C"', line) and "std::" in line:
                    yield f"{name}:{number}: the C interface takes C types only"


def variables(tree):
    return set(re.findall(r'\.name = "(TUTTI_\w+)"', tree.text(GETENV)))


def error_codes(tree):
    return re.findall(r"\b(TUTTI_ERROR_\w+) = ", tree.text("include/tutti/tutti.h"))


def known_names(tree):
    """Names with our prefix that the tree defines: variables, macros, functions, CMake options."""
    names = set(variables(tree))
    for name in tree.files:
        if name.endswith(SOURCE + (".cmake",)) or name.endswith("CMakeLists.txt"):
            names |= set(re.findall(r"\b(?:TUTTI|tutti)_\w+", tree.text(name)))
    return names


def check_documents(tree):
    """Docs that name files, variables, functions or options that do not exist."""
    names = known_names(tree)
    existing = set(tree.files) | {folder for name in tree.files for folder in parents(name)}
    for name in tree.documents():
        for number, line in tree.lines(name):
            for word in re.findall(r"\b(?:TUTTI|tutti)_\w+", line):
                if word not in names and not word.endswith("_"):
                    yield f"{name}:{number}: {word} does not exist"
            for code in re.findall(r"`([^`]+)`", line):
                yield from missing_file(name, number, code.split()[0] if code.split() else "", existing)
            for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", line):
                path = os.path.normpath(os.path.join(os.path.dirname(name), target))
                if "://" not in target and path not in existing:
                    yield f"{name}:{number}: the link to {target} leads nowhere"
            yield from missing_option(tree, name, number, line)


def parents(name):
    while "/" in name:
        name = name.rsplit("/", 1)[0]
        yield name


FOLDERS = ("src", "include", "bootstrap", "collectives", "tools", "tests", "docs", "cmake", "scripts", "examples", "bench",
           "python", "mpi", ".ci")


def missing_file(name, number, word, existing):
    path = word.rstrip("/.,:;")
    if not re.fullmatch(r"[\w./-]+", path) or path.split("/")[0] not in FOLDERS or "/" not in path:
        return
    if path not in existing:
        yield f"{name}:{number}: {path} does not exist"


# Where the options of a command are declared.
COMMANDS = {"tutti-perf": "tools/tutti-perf/", "tutti-info": "tools/tutti-info/", "tutti-run": "tools/tutti-run/",
            "tutti-sched": "tools/tutti-sched/", "tutti-tune": "tools/tutti-tune/", "scripts/test": "scripts/test", "scripts/demo": "scripts/demo",
            "scripts/lint": "scripts/lint"}


def missing_option(tree, name, number, line):
    for code in re.findall(r"`([^`]+)`", line) + ([line] if line.startswith(("$ ", "    ")) or " tutti-" in line else []):
        # mpirun's own options stand before the program; a program that another starts has its options behind its name.
        words = code.replace("`", " ").split()
        command = None
        for word in words:
            base = next((c for c in COMMANDS if word == c or word.endswith("/" + c)), None)
            if base:
                command = base
            elif word in ("|", "&&", ";", "#", "--"):
                command = None
            option = re.match(r"--[a-z][\w-]*", word)
            if command and option and not declared(tree, COMMANDS[command], option[0]):
                yield f"{name}:{number}: {command} has no option {option[0]}"


def declared(tree, place, option):
    if option == "--help":
        return True
    wanted = re.compile(re.escape(option) + r"(?![\w-])")
    return any(wanted.search(tree.text(name)) for name in tree.files if name.startswith(place))


def check_coverage(tree):
    """Every error code and configuration variable is provoked by a test."""
    tests = "\n".join(tree.text(name) for name in tree.files
                      if name.startswith("tests/") and not name.startswith("tests/tidy/"))
    for code in error_codes(tree):
        short = code.removeprefix("TUTTI_ERROR_").lower()
        if not re.search(rf"\b{code}\b|\bCode::{short}\b", tests):
            yield f"include/tutti/tutti.h:1: no test provokes {code}"
    for variable in sorted(variables(tree)):
        if not re.search(rf"\b{variable}\b", tests):
            yield f"{GETENV}:1: no test sets {variable}"


def check_config_document(tree):
    """docs/CONFIG.md names every variable, and every error code is told somewhere in docs/ or the header."""
    text = tree.text("docs/CONFIG.md")
    for variable in sorted(variables(tree)):
        if f"`{variable}`" not in text:
            yield f"docs/CONFIG.md:1: {variable} is missing; build/release/bin/tutti-info --markdown writes this file"


CHECKS = {name.removeprefix("check_"): function for name, function in sorted(globals().items())
          if name.startswith("check_")}


def main():
    parser = argparse.ArgumentParser(description="Checks on the tree as a whole.")
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=", ".join(CHECKS))
    arguments = parser.parse_args()
    unknown = [name for name in arguments.checks if name not in CHECKS]
    if unknown:
        parser.error(f"no check {unknown[0]}; there are {', '.join(CHECKS)}")
    tree = Tree(os.path.normpath(arguments.root))
    findings = [finding + f" [{name}]" for name in arguments.checks or CHECKS for finding in CHECKS[name](tree)]
    print("\n".join(findings) if findings else f"tidy: {len(tree.files)} files, nothing to say")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
