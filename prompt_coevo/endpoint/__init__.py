"""Instructions and templates for a model behind an OpenAI-compatible endpoint, which is not trained."""
