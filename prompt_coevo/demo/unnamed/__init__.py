"""Questions that do not say what to do ("Country: Peru"), for a real language model on a CPU."""
