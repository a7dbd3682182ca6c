"""Every capacity in one pass: stack distances of LRU and of the offline bound (Mattson et al. 1970).

A policy that ranks experts without looking at the capacity keeps, at each capacity, what it keeps at a smaller
one and more. One stack then holds them all: a want at depth d hits wherever the arena has at least d slots.

- LRU, where an event's claims and loads are made in one pass (``order=rows``) or every occurrence is a lookup
  of its own (``cell=sequential``): the depth is the number of experts used since. Uses are bits in a line
  (Bennett and Kruskal 1975), and running sums over its 64-bit words, and over groups of those, count the bits
  before a given one: two loops of fixed length for each use, none for a depth.
- ``belady``: the depth is the number of the first slot that has been free since the want's last use
  (:mod:`replay.stack.vacancy`), which is known without a look ahead.

Depths count within a part of the arena, so that size classes and scope ``layer`` work as well. An event's
depths are taken before it moves anything; they hold at every capacity that holds the event.
"""
