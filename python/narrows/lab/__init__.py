"""The laboratory page: examples with knobs, simulated in the browser.

`knobs` says what can be turned in an example, `patches` what each knob changes in its plan, and
`build` writes both for the page, whose sources are in `web/`. The page never lowers a scenario
itself: it applies patches.
"""
