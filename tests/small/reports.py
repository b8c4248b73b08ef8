"""Public reports about agents on data frames, replayed: what the model wrote there, over such data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

PEOPLE = {
    "Name": ["Ann", "Bob", "Eve", "Ida"],
    "Age": [28, 31, 28, None],
    "Start Date": ["24.01.2019", "17.02.2020", "03.02.2020", "21.12.2021"],
    "Team": ["Sales", "IT", "IT", "Ops"],
    "Salary": ["$1,200.50", "$900.00", "$2,000.25", "$1,500.00"],
}
LOANS = {
    "loan_status": ["PAIDOFF", "PAIDOFF", "COLLECTION", "PAIDOFF"],
    "Gender": ["male", "female", "male", "male"],
    "Principal": [1000, 800, 1000, 300],
}
VERSIONS = {"Software Version": ["1.0", "1.1", "1.1"], "Errors": [3, 4, 5]}


@dataclass(frozen=True)
class Report:
    """A report.

    Attributes:
        address: Of the thread.
        reply: What the model wrote.
        expected: What the answer has; empty if there must be no answer.
        data: The columns of the table ``df``.
        question: What is asked.
        others: Other variables.
        figures: How many pictures there are.
        is_doubted: Whether an answer that is not expected has a doubt.
    """

    address: str
    reply: str
    expected: str = ""
    data: Mapping[str, Any] = field(default_factory=lambda: PEOPLE)
    question: str = "What does df say?"
    others: Mapping[str, Any] = field(default_factory=dict)
    figures: int = 0
    is_doubted: bool = False

    @property
    def namespace(self) -> dict[str, Any]:
        return {"df": pd.DataFrame(self.data), **self.others}


REPORTS = [
    Report(
        "sinaptik-ai/pandas-ai#46",
        "import pandas as pd\ndf = pd.read_csv('filename.csv')\nanswer(df['Age'].max())", "31",
    ),
    Report(
        "sinaptik-ai/pandas-ai#97",
        "import pandas as pd\nimport matplotlib.pyplot as plt\ndf = pd.read_csv('nama_file.csv')\n"
        "some = df[df['Team'] == 'IT']\nfor name in some['Name'].unique():\n"
        "    one = some[some['Name'] == name]\n    plt.scatter(one['Age'], one['Age'], label=name)\n"
        "plt.legend()\nplt.show()\nanswer('The scatter plot.')", "The scatter plot", figures=1,
    ),
    Report(
        "sinaptik-ai/pandas-ai#1418",
        "import os\ndata = pd.read_csv(os.path.join('pipelines', 'chat', 'dataframe.csv'))\n"
        "answer(int((data['Age'] >= 28).sum()))", "3",
    ),
    Report(
        "sinaptik-ai/pandas-ai#114",
        "import pandas as pd\n# Create dataframe from given data\ndf = pd.DataFrame({'loan_status': "
        "['PAIDOFF', 'PAIDOFF'], 'Gender': ['male', 'female']})\n"
        "answer(len(df[(df['Gender'] == 'male') & (df['loan_status'] == 'PAIDOFF')]))",
        data=LOANS, question="How many loans in df are from men that have been paid off?",
        is_doubted=True,
    ),
    Report(
        "sinaptik-ai/pandas-ai#1053",
        "df_filtered = dfs[0][['Start Date']]\ndf_filtered['Year'] = df_filtered['Start Date'].dt.year\n"
        "df_grouped = df_filtered.groupby('Year').size()\nprint(df_grouped.to_dict())", "2020: 2",
    ),
    Report(
        "sinaptik-ai/pandas-ai#1128", "Here is the corrected code:\n```python\nanswer(df['Age'].max())\n```\nDone.", "31",
    ),
    Report("sinaptik-ai/pandas-ai#722", "answer(df['hexometer'].max())"),
    Report(
        "sinaptik-ai/pandas-ai#1243",
        "result = df.groupby('software_version')['errors'].sum()\nanswer(result.idxmax())", "1.1",
        data=VERSIONS,
    ),
    Report(
        "sinaptik-ai/pandas-ai#1544",
        "latest = datetime.datetime.strptime('2021-12-21', '%Y-%m-%d')\n"
        "answer(f\"{latest.strftime('%d.%m.%Y') == df['Start Date'].iloc[-1]}\")", "True",
    ),
    Report("sinaptik-ai/pandas-ai#1109", "answer(table['Age'].max())", "31"),
    Report(
        "sinaptik-ai/pandas-ai#245",
        "import seaborn as sns\nsome = df[df['Team'] == 'IT']\nsns.set_theme(rc={'figure.figsize': (4, 3)})\n"
        "sns.boxplot(x='Team', y='Age', data=some)", "figure", question="Plot boxplots of the ages in df", figures=1,
    ),
    Report(
        "langchain-ai/langchain#6348",
        "import pandas as pd\n# Sample data\ndata = {'Name': ['John', 'Jane'], 'Age': [25, 47]}\n"
        "df = pd.DataFrame(data)\nanswer(df['Age'].mean())",
    ),
    Report("langchain-ai/langchain#5269", "df['Age'] == 28\nanswer(0)", question="How many people in df are 28 years old?", is_doubted=True),
    Report(
        "langchain-ai/langchain#18432",
        "import re\n# Sample unstructured text\ntext = 'year of production was 2023'\n"
        "years = re.findall(r'\\b\\d{4}\\b', text)\nanswer(years[0])",
        question="Which person in df started in 2023?", is_doubted=True,
    ),
    Report("langchain-ai/langchain-experimental#17", "answer(', '.join(df['Team'].unique()))\nObservation", "Sales, IT, Ops"),
    Report("langchain-ai/langchain#6166", "answer(pd.to_numeric(df['Age']).max())", "31"),
    Report(
        "run-llama/llama_index#12454",
        "answer(df[(df['Team'] == 'IT') & (pd.to_datetime(df['Start Date']) < pd.to_datetime('today'))]['Name'].nunique())", "2",
    ),
    Report(
        "run-llama/llama_index#12239",
        "answer(', '.join(pd.get_dummies(df, columns=['Team']).columns[-3:]))", "Team_IT, Team_Ops, Team_Sales",
    ),
    Report(
        "run-llama/llama_index#14926",
        "df['Start Date'] = pd.to_datetime(df['Start Date'])\ndf['Month'] = df['Start Date'].dt.month_name()\n"
        "answer(df['Month'].value_counts().idxmax())", "February",
    ),
    Report(
        "run-llama/llama_index#8919",
        "  To answer it, we can use the following approach:\n1. Use the `shape` attribute.\nHere's the code:\n"
        "```\n# Extract\nrows = len(df.index)\nanswer(rows)\n```", "4",
    ),
    Report("run-llama/llama_index#7269", "   n = len(df)\n   answer(n)", "4"),
    Report("run-llama/llama_index#14897", "answer(df['start date'].iloc[0])", "24.01.2019"),
    Report("huggingface/smolagents#32", "import pandas as pd\nanswer(pd.Series(df['Age']).max())", "31"),
    Report(
        "huggingface/smolagents#1229",
        "def main():\n    oldest = df['Age'].max()\n    answer(oldest)\n\nif __name__ == \"__main__\":\n    main()", "31",
    ),
    Report("devinyf/langchain_qianwen#4", "```py\nimport numpy as np\nanswer(df['Age'].max())\n```", "31"),
    Report("Micrurus-Ai/Corvid-lang#3", "answer(df['Team'].value_counts()[0])", "2"),
    Report(
        "openinterpreter/openinterpreter#697",
        "n = len(df[df['Age'] &gt; 28])\nanswer(f&quot;{n} people&quot;)", "1 people",
    ),
    Report("py-why/dowhy#135", "data = df.copy\ndata['Team'] = data['Team'].map({'IT': 1})\nanswer(data['Team'].sum())", "2"),
    Report(
        "crewAIInc/crewAI#2885",
        "df['Age'].fillna(0, inplace=True)\nanswer(df['Age'].min())", "0",
    ),
    Report(
        "SACGF/variantgrid#1493",
        "counts_df = df.set_index('Name')[['Age']]\ncounts_df['Age']['Ida'] = 40\nanswer(counts_df['Age'].max())", "40",
    ),
    Report("pandas-dev/pandas#53653", "answer(round(pd.to_numeric(df['Salary']).sum(), 2))", "5600.75"),
    Report("vnpy/vnpy_optionmaster#24", 'answer(f"{df["Age"].max():.0f} years")', "31 years"),
]  # fmt: skip
