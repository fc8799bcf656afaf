"""The lab itself: editions, plans, checks, answers and progress, all as values.

An edition is data from a TOML file; everything here is a pure function of an edition and of evidence. No I/O, clock
or cluster: the session reads the lab folder and passes in what it found.
"""
