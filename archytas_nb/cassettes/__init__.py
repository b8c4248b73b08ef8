"""Records model replies and users' answers, and replays them."""
