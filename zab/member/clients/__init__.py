"""The connections of clients: who is there, who each proves to be, and what is written down of it."""
