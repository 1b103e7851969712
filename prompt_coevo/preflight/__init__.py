"""What is looked at before the first step, and the page that says what was found."""
