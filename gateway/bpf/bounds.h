/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Bounds that the verifier must see.
 *
 * clang removes a comparison that it has proved, and turns `1 <= length && length <= 40` into
 * `length - 1 < 40`. The verifier of Linux 6.12 takes that as a bound of `length - 1` only, in a
 * register of its own, and refuses `length` as the size of an access. The verifier of 6.18 carries
 * such a bound over.
 */
#pragma once

/* Makes clang forget what it knows about the variable, so that it leaves comparisons with the
 * variable as they are written. */
#define bounded(variable)                          \
	({                                         \
		asm volatile("" : "+r"(variable)); \
		variable;                          \
	})

#define WITHIN(variable, low, high) (bounded(variable) >= (low) && bounded(variable) <= (high))
