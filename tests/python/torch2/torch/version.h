// SPDX-License-Identifier: BSD-3-Clause
//
// In this folder: what python/torch uses of PyTorch 2 and PyTorch 1.13 has in another form, declared as in 2.1 to 2.8
// (read in pytorch's headers of the same names), so that python/torch can be compiled in its form for them. Nothing is
// linked.
#pragma once

#define TORCH_VERSION_MAJOR 2
#define TORCH_VERSION_MINOR 1
