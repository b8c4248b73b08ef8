"""Records the replies of models and the answers of users, and replays them."""
