"""The heavy-traffic limit: its PDE, its closed forms, and its particles."""
