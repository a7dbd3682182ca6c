"""Synthetic traces: of any shape, from a seed, with what matters to a cache stated and met.

What a token's router scores are: the logarithm of each expert's popularity, plus luck. Luck is Gumbel noise, so that
the picks of one token are draws in proportion to the popularity, without replacement, exactly; each expert keeps its
luck from token to token with one probability, which is found so that the stated reuse comes out, and leaves the
popularity as it is.

| stated | how |
|---|---|
| popularity | Zipf: the i-th most popular expert of a layer has weight i^-s |
| reuse | share of a token's picks that the token before picked too |
| drift | share of the experts that change their place in the popularity in 1,000 tokens |
| domains | each has its own popularity, but for a stated overlap; sessions take turns |
| recall | share of the picks that the candidates' best hold; candidates are the scores plus Gaussian noise |
| drafts | confidence p ~ Beta around a mean; accepted with probability p^calibration (1: calibrated; less: modest) |

Scores are rounded to float16 before anything is picked, so that a router audit finds no difference. With slots an LRU
arena runs along and is recorded (residents, counters), and a resident bonus is in the loop. The same seed gives the
same bytes.
"""

from replay.synth.make import Made, synthesize
from replay.synth.recipe import Recipe

__all__ = ["Made", "Recipe", "synthesize"]
