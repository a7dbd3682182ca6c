"""``finemoe``: the most similar past window's probabilities, more of them the less similar it is (FineMoE 2502.05370).

A store keeps the probability maps of the last ``store`` windows: for every layer the softmax of its router scores,
in double. After layer l-d a row's trajectory so far (its probabilities at layers 0 to l-d, end to end) is held against
the same layers of every stored map by cosine. Of the most similar map, similarity s, layer l's probabilities are
taken in descending order (ties by lowest id): with ``delta = clip(1 - s, 0, 1)`` the first
``clip(#(cumulative sum < delta) + 1, k, E)`` of them are guessed, k being the model's top_k. Rows are united as ranked
guesses are: best place, then highest probability, then lowest id.

``store=1000`` and ``d=6`` are the source's. Its other half, which matches the prompt's embedding for the first d
layers, needs hidden states, which no trace has, and is refused: layers below d are never guessed. Choices where the
source leaves room:

- The store is first in, first out. A window enters it when it is over; of equally similar maps the latest is taken.
- The map of a window of several rows is the mean over the rows that count; each row matches on its own.
- An expert of probability 0 (masked) is not guessed; a row or map without any mass has similarity 0.
- Decode windows alone are matched and stored, warm ones included; a window without router scores is neither. The
  store is carried over from session to session, as the arena is.
- Recorded router scores stand for what the model computed under ``rerouted`` routes too; ``predicted`` routes are
  refused. Candidates are not looked at.

Every row is held against the whole store, a multiplication for each map, layer and expert: measured with a full store,
about 0.17 M lookups/s at 48 layers of 512 and 1.0 M at 16 layers of 64, against tens of millions without read-ahead.
The store takes 8 bytes a probability (200 MB at 48 layers of 512).
"""

from replay.declare.policy import Option, Policy
from replay.predict.ranking import ACTING

POLICY = Policy(
    name="finemoe",
    kind="read-ahead",
    summary="the most similar past window's probabilities, up to a mass of its dissimilarity",
    needs="P",
    source="FineMoE, arXiv 2502.05370",
    options={
        "d": Option("int", 6, main=True, low=1, high=1_000_000),
        "store": Option("int", 1000, low=1, high=1_000_000),
        **ACTING,
    },
    tables=("router_scores",),
    full="router_scores",
)
