"""The lab itself: editions, plans, checks, answers and progress, all as values.

An edition is data from a TOML file; everything here is a pure function of an edition and of evidence. Files,
clocks and clusters may not enter: the session reads the lab folder and hands over what it found.
"""
