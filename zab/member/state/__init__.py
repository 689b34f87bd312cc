"""What a member keeps of itself for its turns and its figures: plain state."""
