"""The adapter for OpenRLHF: `python -m prompt_coevo.adapters.openrlhf ... --coevo.method stream`."""
