"""The environment of Gymnasium: its contract, what its numbers must be, and learning in it."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

if importlib.util.find_spec("gymnasium") is None:
    pytest.skip("needs gymnasium: pip install gymnasium", allow_module_level=True)

import gymnasium
from gymnasium.utils.env_checker import check_env

import narrows.gym
from narrows.gym import example
from narrows.gym.environment import QUEUE, SENDER, Bottleneck

ACTIONS = ("window", "pacing", "drop")
ONE_LINE: dict[str, Any] = {
    "rates_mbit": (10.0, 10.0),
    "rtts_ms": (50.0, 50.0),
    "buffers": (1.0, 1.0),
    "flows": (4, 4),
}
"""A line of 10 Mbit/s and 50 ms: 41.7 packets."""


def made(action: str, **more: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("narrows/Bottleneck-v0", action=action, **more)


def last(env: gymnasium.Env[Any, Any], action: float, seed: int = 1) -> tuple[Any, float, Any]:
    """The last step of an episode in which all actions are the same, and its mean reward."""
    observation, info = env.reset(seed=seed)
    rewards, done = [], False
    while not done:
        observation, reward, _, done, info = env.step(np.array([action], np.float32))
        rewards.append(float(reward))
    return observation, float(np.mean(rewards[len(rewards) // 2 :])), info


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("action", ACTIONS)
def test_gymnasium_s_checker_is_content(action: str) -> None:
    check_env(made(action, steps=20).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("action", ACTIONS)
def test_the_same_seed_is_the_same_episode(action: str) -> None:
    env, other = made(action, steps=30), made(action, steps=30)
    chosen = 0.3 if action == "drop" else 0.05
    one, two = last(env, chosen, seed=7), last(other, chosen, seed=7)
    assert one[1] == two[1] and one[2] == two[2]
    assert (one[0] == two[0]).all()
    assert last(env, chosen, seed=8)[2]["rate_mbit"] != one[2]["rate_mbit"]


def test_a_window_of_the_path_fills_the_line_without_delay() -> None:
    env = made("window", **ONE_LINE)
    rewards = {}
    for window in (20, 42, 80):
        _, info = env.reset(seed=1)
        total = []
        for _ in range(env.unwrapped.steps):  # type: ignore[attr-defined]
            step = float(np.clip(np.log2(window / info["level"]), -1.0, 1.0))
            _, reward, _, _, info = env.step(np.array([step], np.float32))
            total.append(float(reward))
        rewards[window] = float(np.mean(total[50:]))
        delay = info["queueing_delay_ms"]
        # What exceeds the path's 41.7 packets waits.
        expected = max(0.0, (window - 10e6 * 0.05 / 12_000) * 1.2)
        assert delay == pytest.approx(expected, abs=4.0)
    assert rewards[20] == pytest.approx(20 / 41.7, abs=0.06)
    assert rewards[42] > 0.9
    assert rewards[80] == pytest.approx(1.0 - 0.5 * (80 - 41.7) * 1.2 / 50.0, abs=0.08)


def test_a_pace_is_kept() -> None:
    env = made("pacing", **ONE_LINE)
    observation, reward, info = last(env, 0.0)
    # 1000 kbit/s of payload, in packets with 52 bytes of headers, of 10 Mbit/s.
    assert info["level"] == 1000.0
    assert reward == pytest.approx(0.1 * 1500 / 1448, abs=0.02)
    assert observation[1] == pytest.approx(0.0, abs=0.02)


def test_drops_shorten_the_queue_and_cost_goodput() -> None:
    env = made("drop", **ONE_LINE, steps=200)
    waits = {}
    for action in (0.0, 0.1, 1.0):
        _, _, info = last(env, action)
        waits[action] = info["queueing_delay_ms"]
        assert info["level"] == pytest.approx(action**2) and info["flows"] == 4
    assert waits[0.0] > 1.5 * waits[0.1]
    # Nothing passes a queue that drops everything.
    observation, reward, _ = last(env, 1.0)
    assert observation[2] == 0.0 and reward < 0.0


def test_observations_stay_in_their_space() -> None:
    for action, names in (("window", SENDER), ("pacing", SENDER), ("drop", QUEUE)):
        env = made(action, steps=40)
        env.action_space.seed(3)
        for seed in range(5):
            observation, _ = env.reset(seed=seed)
            done = False
            while not done:
                assert observation.shape == (len(names),)
                assert env.observation_space.contains(observation)
                chosen = env.action_space.sample()
                observation, reward, _, done, _ = env.step(chosen)
                assert np.isfinite(reward)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"action": "ecn"}, "action: 'ecn' is none of window, pacing, drop"),
        ({"rates_mbit": (5.0, 1.0)}, r"rates_mbit: \(5.0, 1.0\) is not a least and a largest"),
        ({"rtts_ms": (0.0, 1.0)}, "rtts_ms: "),
        ({"flows": (1,)}, "flows: "),
        ({"step_s": 0.0}, "step_s is not within"),
    ],
)
def test_bad_arguments_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Bottleneck(**given)


def test_actions_beyond_the_space_count_as_its_ends() -> None:
    env = Bottleneck("window", steps=5)
    env.reset(seed=1)
    for value in (50.0, -50.0):
        before = env.level
        env.step(np.array([value], np.float32))
        assert env.level == pytest.approx(before * 2.0 ** np.sign(value))
    assert narrows.gym.Bottleneck is Bottleneck


@pytest.mark.slow
@pytest.mark.parametrize(
    "action", [np.array([np.nan]), float("nan"), np.array([]), np.array([0.1, 0.2]), "x", None, 1j]
)
def test_actions_that_are_no_number_are_refused(action: Any) -> None:
    env = Bottleneck("window", steps=5)
    env.reset(seed=1)
    before = env.level
    with pytest.raises(ValueError, match="is not an array of one number"):
        env.step(action)
    assert env.level == before


def test_a_policy_learns_and_beats_fixed_windows_on_unseen_lines() -> None:
    env = made("window")
    weights = example.learn(env, rounds=6, policies=16, kept=4)
    unseen = range(1001, 1013)
    learned = example.earned(env, example.policy_of(weights), unseen)
    fixed = {
        window: example.earned(env, example.fixed(window), unseen) for window in example.WINDOWS
    }
    # Even the window that would have been best on the unseen lines earns less.
    assert learned > max(fixed.values()) + 3.0, (learned, fixed)
