# The search agent for OpenRLHF, the file of --train.agent_func_path, on every node. The numbers are
# INSPO's for 3B models: top 3, 4 turns, 500 tokens each. For 7B ones: max_turns=6.
from prompt_coevo.adapters.openrlhf.search_agent import search_agent

AgentExecutor = search_agent(url="http://127.0.0.1:8000")
