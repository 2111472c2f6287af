"""Studies from their creation to their withdrawal, and advice on new ones."""
