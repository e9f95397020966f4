"""Words that prompts are made of: subjects, tasks, names, sentences. Nothing of a benchmark."""

from __future__ import annotations

SUBJECTS = (
    "volcanoes", "the water cycle", "honey bees", "the Roman Empire", "solar panels", "chess",
    "black holes", "the immune system", "earthquakes", "jazz music", "coral reefs", "the internet",
    "coffee", "vaccines", "the French Revolution", "photosynthesis", "electric cars", "yoga",
    "the stock market", "dinosaurs", "the printing press", "sleep", "glaciers", "impressionism",
    "DNA", "the Silk Road", "bread baking", "tides", "robots", "the human heart", "desert plants",
    "democracy", "magnets", "whales", "the Great Wall of China", "recycling", "sound waves",
    "ancient Egypt", "bicycles", "inflation", "the moon landing", "spiders", "architecture",
    "the periodic table", "rainforests", "public libraries", "wind turbines", "memory",
    "the Renaissance", "butterflies", "programming languages", "gravity", "marathon running",
    "the ozone layer", "tea", "microscopes", "poetry", "migration of birds", "opera", "batteries",
    "the Industrial Revolution", "penguins", "cloud computing", "sculpture", "the brain",
    "urban gardening", "the Vikings", "lightning", "nutrition", "satellites", "folk tales",
    "bridges", "antibiotics", "the Amazon river", "mathematical proofs", "video games", "octopuses",
    "trade routes", "clouds", "machine learning", "fermentation", "castles", "the Arctic",
    "stress", "photography", "rockets", "wolves", "money", "the telephone", "cities at night",
    "soil", "the Olympic Games", "cheese", "dreams", "fire", "maps", "teamwork", "old age",
    "friendship", "the ocean floor", "a good handshake", "small towns", "trains", "mirrors",
)  # fmt: skip
PEOPLE = (
    "Maya", "Tom", "Aisha", "Luca", "Sofia", "Ben", "Priya", "Oskar", "Chen", "Fatima", "Jonas",
    "Clara", "Diego", "Hana", "Peter", "Nora", "Samuel", "Ines", "Kwame", "Lily", "Anton", "Ruth",
)  # fmt: skip
PLACES = (
    "a lighthouse", "a night train", "a quiet village", "a space station", "a busy harbour",
    "an old library", "a mountain hut", "a city market", "a submarine", "a small island",
    "a school roof", "a bakery at dawn", "a museum after closing", "a forest in winter",
)  # fmt: skip
ROLES = (
    "a travel guide", "a patient maths teacher", "a chef", "a museum curator", "a doctor",
    "a software engineer", "a pirate captain", "a detective", "a gardener", "a news reporter",
    "a football coach", "an astronaut", "a librarian", "a medieval knight", "a job interviewer",
)  # fmt: skip
AUDIENCES = (
    "a child of eight", "a beginner", "a busy manager", "a university student", "my grandmother",
    "a new colleague", "someone who has never heard of it", "an expert in another field",
)  # fmt: skip
CODE_TASKS = (
    "reverses a string", "checks whether a number is prime", "merges two sorted lists",
    "counts the words in a text file", "finds the largest value in a list", "sorts a dictionary by value",
    "removes duplicates from a list", "computes the factorial of a number", "validates an email address",
    "converts Celsius to Fahrenheit", "finds the longest word in a sentence", "flattens a nested list",
    "implements binary search", "reads a CSV file and prints each row", "generates a random password",
    "counts the vowels in a string", "computes the n-th Fibonacci number", "checks for a palindrome",
    "rotates a matrix by 90 degrees", "finds the common elements of two lists", "implements a stack",
    "implements a queue with two stacks", "computes the average of a list of numbers",
    "finds the second largest number in a list", "transposes a matrix", "implements bubble sort",
    "implements quicksort", "groups words by their first letter", "parses a date string",
    "finds all pairs that add up to a target", "converts a decimal number to binary",
    "checks whether brackets are balanced", "capitalises every word of a sentence",
    "finds the shortest path in a grid", "simulates rolling two dice", "implements a linked list",
    "downloads a web page and counts its links", "caches the results of another function",
    "splits a list into chunks of size n", "computes the greatest common divisor of two numbers",
    "prints a multiplication table", "finds the most frequent character in a string",
    "checks whether two words are anagrams", "implements a simple bank account",
)  # fmt: skip
LANGUAGES = ("Python", "Python", "Python", "JavaScript", "Java", "C++", "Go", "Rust", "SQL", "Bash")
THINGS = (
    "apples", "books", "tickets", "marbles", "cookies", "pencils", "stamps", "bottles", "eggs",
    "chairs", "candles", "shirts", "boxes", "flowers", "coins", "cards", "oranges", "toys",
)  # fmt: skip
FOREIGN = {
    "French": (
        "Le marché ouvre à sept heures et ferme à midi.",
        "Les élèves ont visité un château du quinzième siècle.",
        "Il fait trop chaud pour travailler dans le jardin cet après-midi.",
        "La nouvelle ligne de tramway relie la gare à l'université.",
        "Mon voisin répare de vieilles montres depuis trente ans.",
        "Le gouvernement promet de baisser les impôts l'année prochaine.",
    ),
    "Spanish": (
        "La biblioteca estará cerrada el viernes por obras.",
        "Mi abuela prepara la mejor sopa de todo el barrio.",
        "Los científicos midieron la temperatura del agua durante un año.",
        "El equipo local ganó el partido en el último minuto.",
        "Compramos los billetes por internet, pero el hotel estaba lleno.",
        "Las calles del centro se llenan de gente en verano.",
    ),
    "Italian": (
        "Il treno per Firenze parte dal binario quattro.",
        "Abbiamo cenato in una piccola trattoria vicino al porto.",
        "La mostra resterà aperta fino alla fine di maggio.",
    ),
}
ENGLISH = (
    "The meeting was moved to Thursday morning.", "She left her umbrella on the bus.",
    "We need more time to finish the report.", "The river rises every spring.",
    "Could you tell me where the station is?", "They have lived in this house for ten years.",
    "The soup needs a little more salt.", "Our flight was cancelled because of the fog.",
)  # fmt: skip
