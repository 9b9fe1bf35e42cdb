select count(*), sum(ss_ext_discount_amt), min(ss_list_price), max(ss_list_price)
from store_sales
where ss_item_sk in (1,5,9,100,200,300,4000,5001,6003,7777,8888,9999,12345,17000) or ss_store_sk in (2,4) and ss_quantity between 10 and 20
