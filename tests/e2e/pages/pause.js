// Served as slowly as a test wants its page to load.
