// SPDX-License-Identifier: BSD-3-Clause
//
// TUTTI_HOT: a function of the path of a small message, inlined wherever it is called: saving and restoring registers
// costs more than what such a function does.
#pragma once

#define TUTTI_HOT __attribute__((always_inline)) inline
