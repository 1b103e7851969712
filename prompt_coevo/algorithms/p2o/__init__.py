"""P2O (arXiv 2603.21877): templates for hard questions, distilled into the weights."""
