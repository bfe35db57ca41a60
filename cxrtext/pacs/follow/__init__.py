"""Following a PACS: what is new, corrected or gone there is put into the inbox."""

from cxrtext.pacs.follow.follow import Follower, FollowOptions, Tally, follow_peer

__all__ = ["FollowOptions", "Follower", "Tally", "follow_peer"]
