"""`gymnasium.make("narrows/Bottleneck-v0")`: a bottleneck as an environment for learning.

    >>> import gymnasium
    >>> import narrows.gym
    >>> env = gymnasium.make("narrows/Bottleneck-v0", action="window")
    >>> observation, info = env.reset(seed=1)
    >>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    >>> terminated, truncated
    (False, False)

`environment.py` has the environment, `example.py` something that learns in it. Both need gymnasium
(`pip install 'narrows[gym]'`).
"""

from __future__ import annotations

try:
    import gymnasium  # type: ignore[import-not-found,unused-ignore]
except ImportError as error:
    raise ImportError("narrows.gym needs gymnasium: pip install 'narrows[gym]'") from error

from narrows.gym.environment import Bottleneck

__all__ = ["Bottleneck"]

gymnasium.register(id="narrows/Bottleneck-v0", entry_point="narrows.gym.environment:Bottleneck")
