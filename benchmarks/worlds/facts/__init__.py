"""Makes base policies for the demo's world, and checks them."""
