"""Retrieval for search agents: indexes, a server and its client, and the episode of a search agent.

`prompt_coevo.retrieval.index.open.open_index` opens what `prompt-coevo retrieval build` made;
`prompt_coevo.retrieval.client.client.RemoteRetriever` asks a server. Nothing heavy is imported here.
"""
