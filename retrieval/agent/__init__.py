"""The episode of a search agent: its protocol, its tool and its reward."""
