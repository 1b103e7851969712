"""Laws that components of any author keep, for their own tests to call."""
