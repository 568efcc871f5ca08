"""Second forms of what the book prints, each equal to its plain form and quicker."""
