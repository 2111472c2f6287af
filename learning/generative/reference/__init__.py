"""Reference methods of private synthetic records, to be compared with: nobody else uses them."""
