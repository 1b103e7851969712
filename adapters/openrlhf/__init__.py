"""The door to OpenRLHF: `python -m prompt_coevo.adapters.openrlhf ... --coevo.method stream`."""
