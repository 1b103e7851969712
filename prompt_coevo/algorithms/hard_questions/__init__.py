"""Parts shared by the searches for templates: finding hard questions, measuring what becomes of them."""
