
`^{"identity":"golden","state":"open","timestamp":"2024-01-01T00:00:00Z","identifier":"Größe"}