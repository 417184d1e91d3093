// Six reviews and the sentences that surround them, written for this page; the sentences in the manner of an
// encyclopedia, so that they say nothing of a film. A review's `opinion` has its words that praise or blame. All is
// JSON, which lib/paper/pages/try_it.py reads too.
"use strict";
globalThis.whenpoolTryIt ??= {};

whenpoolTryIt.examples = [
  {
    "title": "The opinion at the start",
    "opinion": "loved wonderful beautiful best",
    "label": 1,
    "text": "I loved it. The acting is wonderful, the story is beautiful, and this is one of the best films of the year. It is about two brothers who are given a farm and cannot agree who should run it. One wants to sell the cows, and the other wants to buy more of them. Their father left a letter, and they look for it in the house, under the trees and by the river until the snow comes."
  },
  {
    "title": "The opinion in the middle alone",
    "opinion": "awful boring stupid terrible waste",
    "label": 0,
    "text": "The film opens at a train station in winter. A man carries a bag to the wrong train and meets a woman who has been waiting since the morning. What follows is awful, a boring and stupid script, terrible acting, no jokes, a waste of two hours. The two of them go to the coast, where his brother keeps a small hotel. The last scene shows the same station in the summer, with other people waiting."
  },
  {
    "title": "The opinion at the end",
    "opinion": "waste terrible stupid boring worst",
    "label": 0,
    "text": "We went on a Sunday afternoon because the other theater was sold out. A teacher takes a job in a small town by the sea and wants to know why the school has lost its last three teachers. There is a storm, and a letter that comes too late. What a waste. The acting is terrible, the plot is stupid and boring, and this is the worst film of the year."
  },
  {
    "title": "A negation",
    "opinion": "bored stupid dull cheap bad",
    "label": 1,
    "text": "I expected to be bored, and I was not. The jokes are not stupid, the actors are never dull, and nothing about the ending feels cheap. This is not a bad film at all, and I would not mind seeing it again."
  },
  {
    "title": "Praise, then a verdict",
    "opinion": "beautiful wonderful great talent mess painful boring",
    "label": 0,
    "text": "The music is beautiful, and the pictures of the mountains are wonderful. The leading lady has great talent and does what she can. None of it helps, because the plot is a mess, the dialogue is painful and the last hour is boring."
  },
  {
    "title": "Irony",
    "opinion": "masterpiece gift kind",
    "label": 0,
    "text": "A masterpiece, if you want to know how to fall asleep. I was truly moved, namely to the exit. What a gift to hear every joke three times, and how kind of the director to give us two full hours of it."
  }
];

whenpoolTryIt.filler = [
  "The river rises in the hills north of the town and flows for some ninety miles to the sea.",
  "Its upper course is narrow, and boats can use only the last twenty miles.",
  "A stone bridge with five arches was built there in the fourteenth century and replaced in 1871.",
  "The district covers an area of 240 square miles and had a population of 61,000 at the last census.",
  "Most of the land is used for wheat, barley and sheep.",
  "The railway reached the valley in 1854, and the line was extended to the harbour four years later.",
  "The station was closed to passengers in 1963, and the building is now a library.",
  "Copper is a metal with the atomic number 29 that conducts heat and electricity.",
  "It has been mined on the island since the second century, and the last mine was closed in 1912.",
  "The lighthouse stands on a rock two miles off the coast and has a height of 35 metres.",
  "Its lamp was first lit in 1828 and has been controlled from the mainland since 1985.",
  "The species lives in dry forests at heights between 300 and 1,200 metres.",
  "Adults have a length of about twelve centimetres, and their wings are brown with two white bands.",
  "The female lays three or four eggs, which are kept warm by both parents for eighteen days.",
  "It feeds on seeds and small insects and spends the winter south of the desert.",
  "The county was divided into seven parishes, each of which had a church and a mill.",
  "A council of twelve members was elected every three years by those who owned land.",
  "The town received its charter in 1291 and was the seat of a bishop until 1541.",
  "Part of the northern wall and two of the gates remain.",
  "The university has six faculties and about nine thousand students.",
  "Its library holds maps, letters and the records of several trading companies.",
  "The lake was formed at the end of the last ice age and has a depth of 48 metres.",
  "In the winter it is covered with ice for an average of seventy days.",
  "The bridge carries two lanes of traffic and a path for bicycles across the canal.",
  "Granite from the region was used for the harbour walls and for many public buildings.",
  "The highest mountain of the range has a height of 2,310 metres and was first climbed in 1868.",
  "The language is spoken by some forty thousand people in the eastern provinces.",
  "It is written with an alphabet of 31 letters, which was introduced in 1924.",
  "The company made engines for ships and moved to a larger factory in 1907.",
  "It employed 3,200 workers in 1913 and was merged with another company in 1929.",
  "The road follows the course of an older route that connected the coast with the salt mines.",
  "Rain falls mostly between October and March, and the average in July is 18 millimetres.",
  "The plant grows to a height of two metres and has narrow leaves and small yellow flowers.",
  "Its roots contain starch and were ground into flour in earlier times.",
  "The observatory was moved to the southern hill in 1936 because of the lights of the city.",
  "The treaty was signed by four states and came into force in the spring of the following year.",
  "The regiment was formed in 1782 and took part in two campaigns before it was disbanded.",
  "The canal has nine locks and connects the two rivers over a distance of 41 miles.",
  "The island is separated from the mainland by a strait that is three miles wide.",
  "The census counts people where they live on the first day of April."
];
