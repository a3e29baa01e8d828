#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# bench/cliffs.py on made-up times: what has to be found, and what must not be.
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
import cliffs
import report

SMOOTH = {1: 1.0, 2: 1.0, 4: 1.1, 8: 1.0, 16: 1.3, 32: 1.9, 64: 3.0, 128: 6.0}


def kinds(table):
    return [(each.kind, each.collective, each.bytes) for each in cliffs.findings(table)]


class Cliffs(unittest.TestCase):
    def test_a_smooth_curve_has_none(self):
        self.assertEqual(kinds({("allreduce", 2): SMOOTH}), [])

    def test_a_size_slower_than_twice_both_neighbours_is_one(self):
        (found,) = cliffs.cliffs("allreduce", 5, {**SMOOTH, 8: 2.8})
        self.assertEqual((found.bytes, found.ranks, found.us, found.beside), (8, 5, 2.8, ("allreduce", 16)))
        self.assertAlmostEqual(found.ratio, 2.8 / 1.3)

    def test_twice_exactly_or_twice_one_neighbour_only_is_none(self):
        self.assertEqual(list(cliffs.cliffs("allreduce", 2, {1: 1.0, 2: 2.0, 4: 1.0})), [])
        self.assertEqual(list(cliffs.cliffs("allreduce", 2, {1: 1.0, 2: 5.0, 4: 4.0})), [], "a step to a slower way is no cliff")

    def test_the_ends_have_one_neighbour_and_are_none(self):
        self.assertEqual(list(cliffs.cliffs("allreduce", 2, {1: 9.0, 2: 1.0, 4: 9.0})), [])

    def test_sizes_are_neighbours_by_value_not_by_the_order_of_the_table(self):
        (found,) = cliffs.cliffs("allreduce", 2, {4: 1.0, 1: 1.0, 2: 3.0})
        self.assertEqual(found.bytes, 2)


class Order(unittest.TestCase):
    def test_a_size_slower_than_a_larger_one_is_found_beside_the_fastest_of_those(self):
        found = list(cliffs.order("scan", 2, {1: 1.0, 2: 3.0, 4: 2.0, 8: 2.2, 16: 9.0}))
        self.assertEqual([(each.bytes, each.beside) for each in found], [(2, ("scan", 4))])

    def test_a_plateau_of_two_points_is_found_where_it_is_no_cliff(self):
        found = list(cliffs.order("scan", 2, {1: 1.0, 2: 6.0, 4: 6.1, 8: 2.0}))
        self.assertEqual([each.bytes for each in found], [2, 4])

    def test_noise_is_none(self):
        self.assertEqual(list(cliffs.order("scan", 2, {1: 1.2, 2: 1.0, 4: 1.0})), [])


class Consistency(unittest.TestCase):
    def test_an_allreduce_slower_than_reduce_and_broadcast_is_found(self):
        table = {("allreduce", 3): {8: 3.0, 16: 3.0, 32: 3.0}, ("reduce+broadcast", 3): {8: 2.0, 16: 2.9}}
        self.assertEqual(kinds(table), [("consistency", "allreduce", 8)])

    def test_numbers_of_ranks_are_not_mixed(self):
        self.assertEqual(kinds({("allreduce", 3): {8: 3.0}, ("reduce+broadcast", 2): {8: 1.0}}), [])

    def test_a_barrier_slower_than_a_small_allreduce_is_found(self):
        self.assertEqual(kinds({("barrier", 2): {0: 1.0}, ("allreduce", 2): {4: 0.1, 8: 0.5}}), [("consistency", "barrier", 0)])
        self.assertEqual(kinds({("barrier", 2): {0: 0.5}, ("allreduce", 2): {8: 0.5}}), [])

    def test_every_guideline_is_tried(self):
        for name, other in cliffs.GUIDELINES:
            self.assertIn(("consistency", name, 64), kinds({(name, 4): {64: 2.0}, (other, 4): {64: 1.0}}))


class SecondLook(unittest.TestCase):
    def test_a_cliff_is_measured_again_with_its_neighbours(self):
        table = {("allreduce", 2): {**SMOOTH, 8: 2.8}}
        found = [each for each in cliffs.findings(table) if each.kind == "cliff"]
        self.assertEqual(cliffs.concerned(found, table), {("allreduce", 2): {4, 8, 16}})

    def test_what_is_compared_is_measured_again_with_it(self):
        table = {("barrier", 2): {0: 1.0}, ("allreduce", 2): {4: 0.1, 8: 0.5}}
        self.assertEqual(cliffs.concerned(cliffs.findings(table), table), {("barrier", 2): {0}, ("allreduce", 2): {8}})

    def test_groups_have_the_worst_first(self):
        table = {("allreduce", 2): {8: 3.0, 16: 5.0}, ("reduce+broadcast", 2): {8: 1.0, 16: 1.0}}
        (group,) = cliffs.groups(cliffs.findings(table))
        self.assertEqual([each.bytes for each in group], [16, 8])


class Axes(unittest.TestCase):
    def test_ticks_hold_all_values_and_are_few(self):
        for low, high in ((0.31, 0.35), (0.09, 4440.0), (1.0, 1.0), (0.5, 21.0), (1e-3, 1e5)):
            grid = report.ticks(low, high)
            self.assertTrue(grid[0] <= low and grid[-1] >= high and 2 <= len(grid) <= 14, (low, high, grid))


if __name__ == "__main__":
    unittest.main()
