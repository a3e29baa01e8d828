#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# Every check of tidy.py finds what it is for: a small tree that is in order, and one seeded fault at a time.
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import commands
import tidy

SPDX = "// SPDX-License-Identifier: BSD-3-Clause\n"
HEADER = SPDX + "//\n// A purpose and an invariant.\n#pragma once\n"

GOOD = {
    "src/base/config.cc": SPDX + '#include "base/config.h"\n  {.name = "TUTTI_DEVICE",\n  getenv("TUTTI_DEVICE");\n',
    "src/base/config.h": HEADER,
    "src/mesh/mesh.cc": SPDX + '#include <infiniband/verbs.h>\n#include <net/if.h>\n#include "base/config.h"\n'
                               '#include "control/control.h"\n',
    "src/control/control.h": HEADER,
    "src/exec/exec.cc": SPDX + '#include "collectives/schedule.h"\n#include "mesh/mesh.h"\n',
    "src/softdev/softdev.cc": SPDX + '#include "verbs/api.h"\n',
    "include/tutti/tutti.h": "/* SPDX-License-Identifier: BSD-3-Clause\n *\n * The interface. */\n"
                             "  TUTTI_ERROR_TYPE = 2,\nTUTTI_API int tutti_init(void);\n",
    "tools/tutti-perf/main.cc": SPDX + '#include "base/config.h"\n#include "tutti/tutti.h"\n// "--vs"\n',
    "tests/base/test_config.cc": SPDX + 'TUTTI_DEVICE TUTTI_ERROR_TYPE getenv("X");\n',
    "docs/CONFIG.md": "`TUTTI_DEVICE` and `src/base/config.cc` and [the root](../README.md)\n",
    "README.md": "`tutti-perf allreduce --vs mpi`, tutti_init\n",
}


class Tidy(unittest.TestCase):
    def findings(self, changes):
        with tempfile.TemporaryDirectory() as root:
            for name, text in {**GOOD, **changes}.items():
                path = os.path.join(root, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            tree = tidy.Tree(root)
            return {name: list(check(tree)) for name, check in tidy.CHECKS.items()}

    def expect(self, check, changes, words):
        found = self.findings(changes)
        self.assertTrue(any(words in finding for finding in found[check]), f"{check} found {found[check]}")
        others = {name: said for name, said in found.items() if said and name != check}
        self.assertFalse(others, "a seeded fault is the business of one check")

    def test_a_tree_in_order_has_no_findings(self):
        self.assertEqual({name: [] for name in tidy.CHECKS}, self.findings({}))

    def test_a_room_that_includes_upwards(self):
        self.expect("includes", {"src/base/log.cc": SPDX + '#include "mesh/mesh.h"\n'}, "base may not include mesh/mesh.h")

    def test_the_executor_sees_the_schedule_form_only(self):
        self.expect("includes", {"src/exec/a.cc": SPDX + '#include "collectives/select.h"\n'}, "exec may not include")

    def test_the_software_device_shares_no_code_with_verbs(self):
        self.expect("includes", {"src/softdev/a.cc": SPDX + '#include "verbs/queue_pair.h"\n'}, "softdev may not include")

    def test_an_example_that_looks_inside(self):
        self.expect("includes", {"examples/a.cc": SPDX + '#include "base/config.h"\n'}, "examples may not include")

    def test_a_program_that_looks_inside(self):
        self.expect("includes", {"tools/tutti-perf/a.cc": SPDX + '#include "mesh/mesh.h"\n'}, "tutti-perf may not")

    def test_a_room_that_no_rule_knows(self):
        self.expect("rooms", {"src/attic/a.cc": SPDX}, "attic has no row")

    def test_verbs_header_outside_its_rooms(self):
        self.expect("verbs_header", {"src/link/a.cc": SPDX + "#include <infiniband/verbs.h>\n"}, "stays inside")

    def test_environment_read_elsewhere(self):
        self.expect("getenv", {"src/link/a.cc": SPDX + 'x = std::getenv("HOME");\n'}, "the environment is read in")
        self.expect("getenv", {"tools/tutti-perf/a.cc": SPDX + "extern char **environ;\n"}, "the environment is read in")

    def test_a_comment_may_speak_of_getenv(self):
        self.assertFalse(self.findings({"src/link/a.cc": SPDX + '// no getenv() here\ntext = "getenv()";\n'})["getenv"])

    def test_no_license(self):
        self.expect("spdx", {"src/base/a.cc": "int a;\n"}, "no SPDX")
        self.expect("spdx", {"scripts/a": "#!/bin/sh\n"}, "no SPDX")

    def test_whitespace(self):
        self.expect("whitespace", {"src/base/a.cc": SPDX + "int\ta;\n"}, "tab")
        self.expect("whitespace", {"src/base/a.cc": SPDX + "int a; \n"}, "blanks")
        self.expect("whitespace", {"src/base/a.cc": SPDX + "int a;"}, "no newline")

    def test_a_file_that_is_more_than_a_noun(self):
        self.expect("length", {"src/base/a.cc": SPDX + "\n" * tidy.MAX_LINES}, "more than")

    def test_header_habits(self):
        self.expect("habits", {"src/base/a.h": SPDX + "//\n// A purpose.\n"}, "no #pragma once")
        self.expect("habits", {"src/base/a.h": SPDX + "#pragma once\n"}, "purpose and invariant")
        self.expect("habits", {"src/base/a.h": HEADER + "using namespace std;\n"}, "using namespace")

    def test_a_cpp_type_in_the_c_interface(self):
        text = GOOD["include/tutti/tutti.h"]
        self.expect("c_interface", {"include/tutti/tutti.h": text + "TUTTI_API bool tutti_ok(void);\n"}, "C types only")
        self.expect("c_interface", {"include/tutti/tutti.h": text + "TUTTI_API int other(void);\n"}, "start with tutti_")
        self.expect("c_interface", {"src/api/a.cc": SPDX + 'extern "C" int f(std::string);\n'}, "C types only")

    def test_documents_that_name_what_is_not_there(self):
        for text, words in (("TUTTI_NOTHING\n", "TUTTI_NOTHING does not exist"), ("tutti_nothing()\n", "tutti_nothing"),
                            ("`src/base/nothing.cc`\n", "nothing.cc does not exist"),
                            ("[x](docs/NOTHING.md)\n", "leads nowhere"),
                            ("`mpirun -n 2 tutti-perf allreduce --nothing`\n", "no option --nothing")):
            self.expect("documents", {"README.md": text}, words)

    def test_an_error_code_or_variable_without_a_test(self):
        bare = {"tests/base/test_config.cc": SPDX}
        self.expect("coverage", bare, "no test provokes TUTTI_ERROR_TYPE")
        self.expect("coverage", bare, "no test sets TUTTI_DEVICE")

    def test_a_stale_list_of_variables(self):
        self.expect("config_document", {"docs/CONFIG.md": "none\n"}, "TUTTI_DEVICE is missing")

    def run_commands(self, text):
        with tempfile.TemporaryDirectory() as root:
            with open(os.path.join(root, "README.md"), "w", encoding="utf-8") as file:
                file.write(text)
            return commands.run(tidy.Tree(root), "README.md", root)

    def test_commands_of_documents_run_where_they_are_marked(self):
        self.assertEqual(([], 2), self.run_commands("```sh checked\ntrue | \\\n  cat\n\ntest ! -e tutti\n```\n```sh\nfalse\n```\n"))

    def test_a_command_of_a_document_that_fails(self):
        findings, count = self.run_commands("```sh checked\ntrue\necho why; false | cat\n```\n")
        self.assertEqual(2, count)
        self.assertEqual(1, len(findings))
        self.assertIn("README.md:3: 'echo why; false | cat' ends with status 1:\nwhy", findings[0])

    def test_every_check_was_seen_to_fail(self):
        tested = set()
        with open(__file__, encoding="utf-8") as file:
            text = file.read()
        for name in tidy.CHECKS:
            if f'expect("{name}"' in text:
                tested.add(name)
        self.assertEqual(set(tidy.CHECKS), tested)


if __name__ == "__main__":
    unittest.main()
