/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Bounds that the verifier must see.
 *
 * clang leaves out a comparison that it has proved, and turns `1 <= length && length <= 40` into `length - 1 < 40`. The verifier
 * of Linux 6.12 takes that as a bound of `length - 1` alone, in a register of its own, and refuses `length` as the size of an
 * access. That of 6.18 carries such a bound over.
 */
#pragma once

/* The variable itself, of which clang knows nothing from here on: a comparison with it stays as it is written. */
#define bounded(variable)                          \
	({                                         \
		asm volatile("" : "+r"(variable)); \
		variable;                          \
	})

#define WITHIN(variable, low, high) (bounded(variable) >= (low) && bounded(variable) <= (high))
